"""Exported cells in the one form in which each is stored here; an empty one is left out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation

from pydantic import JsonValue

from context_engine.adapters.baserow.fields import with_time
from context_engine.adapters.baserow.model import Field
from context_engine.adapters.baserow.source import AGAIN, fault_of, spelled

Convert = Callable[[JsonValue], JsonValue]
"""A cell that is not null as it is stored; None for an empty one. Raises `Wrong`."""

TEXT_CHARS = 100_000
"""Longest text in a cell."""
DIGITS = 100
"""Most digits of a number before its point."""


class Wrong(Exception):
    """A cell that is not of its field's type; whoever knows its place says where."""


def converter(field: Field) -> Convert | None:
    """How the field's cells are stored; None for one whose cells are not kept."""
    if field.type == "single_select":
        return _select(field.choices)
    if field.type == "date":
        return _time if with_time(field) else _day
    return _CONVERTERS.get(field.type)


def time_of(value: JsonValue) -> datetime:
    """A point in time as the file tells them. Raises `Wrong`."""
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        at = None
    if at is None:
        raise Wrong(f"should be a time as YYYY-MM-DDTHH:MM:SS; {AGAIN}")
    if at.tzinfo is None:
        return at.replace(tzinfo=UTC)
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise Wrong(f"should be a time of the years 1 to 9999 in UTC; {AGAIN}") from None


def decimal_of(text: str) -> Decimal | None:
    """The number that `text` spells; None for no number, and for one that is too big."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    if number.is_zero():
        return Decimal(0)  # whatever its exponent
    return number if number.is_finite() and number.adjusted() < DIGITS else None


def _text(value: JsonValue) -> JsonValue:
    if not isinstance(value, str):
        raise Wrong(f"should be a text; {AGAIN}")
    if len(value) > TEXT_CHARS:
        raise Wrong(f"is longer than {TEXT_CHARS} characters; shorten it")
    if (fault := fault_of(value)) is not None:
        raise Wrong(fault)
    return value


def _number(value: JsonValue) -> JsonValue:
    """Exported as text, so that no digit is lost; a number here, whole where it is whole."""
    if value == "":
        return None
    number = decimal_of(str(value)) if not isinstance(value, bool | list | dict) else None
    if number is None:
        raise Wrong(f"should be a number of at most {DIGITS} digits; {AGAIN}")
    if number == number.to_integral_value():
        return int(number)
    if Decimal(str(float(number))) != number:
        raise Wrong("has more digits than a number here keeps (15); round it")
    return float(number)


def _whole(value: JsonValue) -> JsonValue:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > math.pow(2, 62):
        raise Wrong(f"should be a whole number; {AGAIN}")
    return value


def _boolean(value: JsonValue) -> JsonValue:
    if value in ("true", "True") or value is True:
        return True
    if value in ("false", "False") or value is False:
        return False
    raise Wrong(f"should be true or false; {AGAIN}")


def _day(value: JsonValue) -> JsonValue:
    try:
        if isinstance(value, str) and len(value) == 10:
            return date.fromisoformat(value).isoformat()
    except ValueError:
        pass
    raise Wrong(f"should be a date as YYYY-MM-DD; {AGAIN}")


def _time(value: JsonValue) -> JsonValue:
    at = time_of(value).replace(tzinfo=None)
    # One text for one point in time, whose order is that of time: all digits of every part.
    return f"{at.isoformat(timespec='microseconds')}Z"


def _select(choices: Mapping[int, str]) -> Convert:
    def convert(value: JsonValue) -> JsonValue:
        if isinstance(value, bool) or not isinstance(value, int):
            chosen = None
        else:
            chosen = choices.get(value)
        if chosen is None:
            raise Wrong(f"there is no select option {spelled(value)}; {AGAIN}")
        return chosen

    return convert


_CONVERTERS: Mapping[str, Convert] = {
    "text": _text,
    "long_text": _text,
    "email": _text,
    "phone_number": _text,
    "url": _text,
    "number": _number,
    "rating": _whole,
    "autonumber": _whole,
    "boolean": _boolean,
}
