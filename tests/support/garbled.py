"""Garbled input for the readers of foreign bytes: good messages, spoilt in one to four places."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from events.records import Headers

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 0.5, -0.0, 2**31, 2**53 + 1, 2**63, 10**40, 1e308, "", " ", "a",
    "\x00", "\ud800", "\u202e", "é", "e\u0301", "\U0001f600", "x" * 300, "x" * 70_000, "null",
    "1", "-1", "1e400", "2026-02-30", "2026-11-29", "0001-01-01", "9999-12-31T23:59:59Z", "UTC",
    "Mars/Base", "../UTC", "localtime", "a:b:c", "mark:w:e:r:1", "topic:t:0:-1", "%00", "%", "%zz",
    [], {}, [[]], [None], {"": None}, {"literal": None}, {"now": {"unit": "today"}}, {"any": []},
    {"all": [{"not": True}]}, {"user": "team_ids"}, {"linkedAny": {"field": "l", "pred": True}},
)  # fmt: skip
"""Values that some reader somewhere did not think of."""

PIECES = (
    b"\x00", b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xef\xbb\xbf", b'"', b"\\", b"\\u",
    b"\\ud800", b"[", b"]", b"{", b"}", b",", b":", b"1e999", b"-", b"NaN", b"Infinity", b"null",
    b"[" * 300, b'{"a":' * 300, b"9" * 5_000, b"\r\n", b"application/json", b"1.0",
)  # fmt: skip

NAMES = (
    "ce_id", "ce_type", "ce_specversion", "CE_ID", "content-type", "Content-Type", "",
    "kafka_replyTopic", "kafka_replyPartition", "reply_to", "correlation_id",
    "kafka_dlt-original-topic", "traceparent", r"\xff", "x" * 2_000,
)  # fmt: skip


class Garbler:
    """Draws from `rng` alone: the same seed garbles the same way."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def document(self, good: Any, others: Sequence[Any]) -> Any:
        """`good`, JSON that is parsed, with odd values, names and parts of `others` in it."""
        found = json.loads(json.dumps(good))
        for _ in range(self._rng.choice((0, 1, 1, 2, 4))):
            found = self._spoilt(found, others)
        return found

    def text(self, good: Any, others: Sequence[Any]) -> bytes:
        """The bytes of a document: often still JSON, often not."""
        found = self.document(good, others)
        escaped = self._rng.random() < 0.5
        spelled = "[" * 5_000  # where it is too deep for this writer
        with suppress(RecursionError):
            spelled = json.dumps(found, ensure_ascii=escaped)
        text = spelled.encode(errors="surrogatepass")
        for _ in range(self._rng.choice((0, 0, 0, 1, 2, 4))):
            text = self._cut(text)
        if self._rng.random() < 0.01:
            deep = self._rng.choice((50, 210, 900, 20_000))
            text = text.replace(b'"', b"[" * deep + b"]" * deep + b',"', 1)
            text = b'{"data":' * deep + text + b"}" * deep
        return text

    def headers(self, good: Mapping[str, bytes]) -> Headers:
        """Headers of a message, some gone, some twice, some of others."""
        found: list[tuple[str, bytes | None]] = list(good.items())
        for _ in range(self._rng.choice((0, 0, 0, 1, 2, 3))):
            self._rng.shuffle(found)
            match self._rng.randrange(4):
                case 0 if found:
                    found.pop()
                case 1 if found:
                    name, value = found.pop()
                    found.append((name, self._cut(value or b"")))
                case 2 if found:
                    found.append((found[0][0].upper(), self._rng.choice((None, *PIECES))))
                case _:
                    found.append((self._rng.choice(NAMES), self._rng.choice((None, *PIECES))))
        return tuple(found)

    def _spoilt(self, document: Any, good: Sequence[Any]) -> Any:
        """`document` with another value in one of its places."""
        places = [*_places(document)]
        if not places:
            return self._odd(document, good)
        holder, at = self._rng.choice(places)
        match self._rng.randrange(4):
            case 0:
                del holder[at]
            case 1 if isinstance(holder, dict):
                holder[self._rng.choice(("type", "op", "cmp", "where", "é", "", "x" * 300))] = (
                    holder[at]
                )
            case _:
                holder[at] = self._odd(holder[at], good)
        return document

    def _odd(self, old: Any, good: Sequence[Any]) -> Any:
        match self._rng.randrange(6):
            case 0:
                return [old] * self._rng.choice((1, 2, 70))
            case 1:  # far inside of itself
                name = self._rng.choice(("", "not", "all", "every", "where"))
                for _ in range(self._rng.choice((2, 70, 400))):
                    old = [old] if not name else {name: old if name in ("not", "where") else [old]}
                return old
            case 2:  # a part of another message
                other = json.loads(json.dumps(self._rng.choice(good)))
                parts = [holder[at] for holder, at in _places(other)]
                return self._rng.choice(parts or [None])
            case _:
                return json.loads(json.dumps(self._rng.choice(ODD)))

    def _cut(self, text: bytes) -> bytes:
        """`text` with a piece of it gone, doubled, flipped or put in."""
        a, b = sorted((self._rng.randrange(len(text) + 1), self._rng.randrange(len(text) + 1)))
        match self._rng.randrange(5):
            case 0:
                return text[:a] + text[b:]
            case 1:
                return text[:b] + text[a : a + 4_000] + text[b:]
            case 2 if text[a : a + 1]:
                return text[:a] + bytes([text[a] ^ 1 << self._rng.randrange(8)]) + text[a + 1 :]
            case _:
                return text[:a] + self._rng.choice(PIECES) + text[a:]


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every (list or object, index or name) in `document`."""
    todo = [document]
    while todo:
        one = todo.pop()
        inside = (
            one.items()
            if isinstance(one, dict)
            else enumerate(one)
            if isinstance(one, list)
            else ()
        )
        for at, child in list(inside):
            yield one, at
            if isinstance(child, dict | list):
                todo.append(child)
