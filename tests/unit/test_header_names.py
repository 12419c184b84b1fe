"""A header name that is not UTF-8 is read, escaped; everything around it is read as before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.consumer import fetcher
from aiokafka.record.default_records import DefaultRecordBatch, _DefaultRecordBatchBuilderPy

from events.header_names import accept_any_header_name

pytestmark = pytest.mark.unit

Record = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]


class NotUtf8(str):
    """A header name that goes on the wire as bytes that are not UTF-8."""

    def encode(self, *_: object) -> bytes:  # type: ignore[override]
        return b"n\xff\xfe"


@pytest.fixture
def tolerant() -> Iterator[None]:
    before = fetcher.MemoryRecords
    accept_any_header_name()
    yield
    fetcher.MemoryRecords = before


def batch(base: int, records: list[Record], compression: int = 0) -> bytes:
    builder = _DefaultRecordBatchBuilderPy(
        magic=2,
        compression_type=compression,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=0,
        batch_size=100_000,
    )
    for offset, (key, value, headers) in enumerate(records):
        assert builder.append(offset, 1_700_000_000_000, key, value, headers)
    built = bytearray(builder.build())
    built[:8] = base.to_bytes(8, "big")  # as the broker does: the CRC leaves the offset out
    return bytes(built)


def read(data: bytes) -> list[tuple[int, Any, Any, Any]]:
    records = fetcher.MemoryRecords(data)
    found = []
    while records.has_next():
        each = records.next_batch()
        assert each.validate_crc()
        assert not each.is_control_batch
        found += [(r.offset, r.key, r.value, tuple(r.headers)) for r in each]
    return found


@pytest.mark.usefixtures("tolerant")
@pytest.mark.parametrize("compression", [0, DefaultRecordBatch.CODEC_GZIP])
def test_a_bad_name_is_escaped_and_its_neighbours_are_read(compression: int) -> None:
    """Records before, at and after the bad name arrive once each, in order, in every batch."""
    good: Record = (b"k", b"v", [("name", b"1"), ("name", None)])
    bad: Record = (None, b"\xff", [("ok", b""), (NotUtf8("x"), b"2")])
    data = batch(10, [good, bad, good], compression) + batch(13, [good], compression)
    plain = (("name", b"1"), ("name", None))
    assert read(data) == [
        (10, b"k", b"v", plain),
        (11, None, b"\xff", (("ok", b""), ("n\\xff\\xfe", b"2"))),
        (12, b"k", b"v", plain),
        (13, b"k", b"v", plain),
    ]


@pytest.mark.usefixtures("tolerant")
def test_a_cut_batch_at_the_end_of_a_fetch_is_left_for_the_next() -> None:
    """Brokers cut the last batch of a fetch anywhere; what is whole before it is read."""
    whole, cut = batch(1, [(b"a", b"1", [])]), batch(2, [(b"b", b"2", [])])
    for length in (1, 20, len(cut) - 1):
        assert [offset for offset, *_ in read(whole + cut[:length])] == [1]


@pytest.mark.usefixtures("tolerant")
def test_records_read_the_same_as_without() -> None:
    """Where every name is UTF-8 nothing differs from aiokafka's own reading."""
    records: list[Record] = [(b"%d" % n, b"v" * n, [("a", b"%d" % n)]) for n in range(50)]
    data = batch(0, records)
    from aiokafka.record.memory_records import MemoryRecords

    own = MemoryRecords(data).next_batch()
    assert own is not None
    assert read(data) == [(r.offset, r.key, r.value, tuple(r.headers)) for r in own]
