"""Lets consumers read records whose header names are not UTF-8.

aiokafka decodes header names strictly and raises out of the fetch, so that one such record,
which any client may write, stops its partition for good. After `accept_any_header_name()` the
bytes that are not UTF-8 arrive as backslash escapes (`\\xff`), and the record can be handled
like any other bad input.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Any

from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords

_LENGTH_AT = struct.calcsize(">q")
_LENGTH_END = struct.calcsize(">qi")
_MAGIC_AT = struct.calcsize(">qii")


def accept_any_header_name() -> None:
    """Make every aiokafka consumer of this process tolerant; calling it again changes nothing."""
    if not hasattr(fetcher, "MemoryRecords"):
        raise RuntimeError("this aiokafka reads records elsewhere: adapt events/header_names.py")
    fetcher.MemoryRecords = _Records


class _Records:
    """The batches of one fetch; remembers the bytes of each, to read it a second time."""

    def __init__(self, data: bytes) -> None:
        self._records = MemoryRecords(data)
        self._data = memoryview(data)
        self._at = 0

    def size_in_bytes(self) -> int:
        return int(self._records.size_in_bytes())

    def has_next(self) -> bool:
        return bool(self._records.has_next())

    def next_batch(self) -> Any:
        batch = self._records.next_batch()
        (length,) = struct.unpack_from(">i", self._data, self._at + _LENGTH_AT)
        begin, self._at = self._at, self._at + _LENGTH_END + length
        raw = self._data[begin : self._at]
        return _Batch(batch, raw) if raw[_MAGIC_AT] >= 2 else batch  # older ones have no headers


class _Batch:
    """One batch, read by aiokafka; from the first name that it cannot read on, by us."""

    def __init__(self, batch: Any, raw: memoryview) -> None:
        self._batch = batch
        self._raw = raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __iter__(self) -> Iterator[Any]:
        read = 0
        try:
            for record in self._batch:
                read += 1
                yield record
        except (UnicodeDecodeError, CorruptRecordException):
            yield from islice(_tolerant(self._raw), read, None)


def _tolerant(raw: memoryview) -> Iterator[Any]:
    batch = _DefaultRecordBatchPy(raw)
    batch._maybe_uncompress()
    batch._buffer = _Escaping(batch._buffer)
    return iter(batch)


class _Escaping(bytearray):
    """Bytes that decode to text whatever they are."""

    def __getitem__(self, at: Any) -> Any:
        part = super().__getitem__(at)
        return _Escaping(part) if isinstance(at, slice) else part

    def decode(self, *_: object) -> str:
        return super().decode("utf-8", "backslashreplace")
