"""Texts, ids and lists that callers give: which can be stored, and in which one form."""

from __future__ import annotations

import re
from collections.abc import Sized
from uuid import uuid4

from pydantic import JsonValue

from context_engine.errors import InvalidRequest
from context_engine.models.base import ID_CHARS

TEXT_CHARS = 100_000
"""Longest text in a cell."""
MANY = 1_000
"""Most items in one cell."""
STEERS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""C0 and C1 controls, line separators, and what overrides the direction of text."""


def clean_text(value: JsonValue, place: str, *, chars: int = TEXT_CHARS) -> str:
    """Text that can be stored. Raises `InvalidRequest`: not a text, too long, or a NUL in it."""
    if not isinstance(value, str):
        raise InvalidRequest("write a text", field=place)
    if len(value) > chars:
        raise InvalidRequest(f"longer than {chars} characters; shorten it", field=place)
    return storable(value, place)


def storable(text: str, place: str) -> str:
    """`text`, if it is UTF-8 and has no NUL. Raises `InvalidRequest`."""
    if "\x00" in text or not (text.isascii() or _whole(text)):
        raise InvalidRequest(
            "holds a NUL or half a character (a lone surrogate); remove it", field=place
        )
    return text


def _whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def clean_line(value: JsonValue, place: str, *, chars: int) -> str:
    """Text of one line that steers no terminal, as names are. Raises `InvalidRequest`."""
    text = clean_text(value, place, chars=chars)
    if STEERS.search(text):
        raise InvalidRequest(
            "holds a line break, a control character or one that turns the direction of text;"
            " remove it",
            field=place,
        )
    return text


def clean_id(value: JsonValue, place: str) -> str:
    """An id as text. Whole numbers become text, so that 1 and "1" are the same."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not 1 <= len(value) <= ID_CHARS or not _printable(value):
        raise InvalidRequest(
            f"write an id of 1 to {ID_CHARS} characters without control characters", field=place
        )
    return value


def _printable(value: str) -> bool:
    return all(ord(c) >= 0x20 and c != "\x7f" and not "\ud800" <= c <= "\udfff" for c in value)


def given_or_new(id: str | None) -> str:
    """The id that the caller chose, checked, else a fresh one."""
    return uuid4().hex if id is None else clean_id(id, "id")


def clean_ids(value: JsonValue, place: str) -> list[str]:
    """Distinct ids, in the order given; one id alone stands for a list of one."""
    items = items_of(value, place) if isinstance(value, list) else [value]
    return list(dict.fromkeys(clean_id(item, place) for item in items))


def bounded(given: Sized, place: str, *, most: int = MANY) -> None:
    """Raises `InvalidRequest` for more than `most` of what one call may name."""
    if len(given) > most:
        raise InvalidRequest(f"more than {most:,}; send fewer in one call", field=place)


def items_of(value: JsonValue, place: str) -> list[JsonValue]:
    """A list of at most 1,000 items. Raises `InvalidRequest`."""
    if not isinstance(value, list):
        raise InvalidRequest("write a list", field=place)
    if len(value) > MANY:
        raise InvalidRequest(f"more than {MANY} items; write fewer", field=place)
    return value
