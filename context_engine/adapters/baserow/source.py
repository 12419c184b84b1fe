"""The file's JSON, looked at with its places: whatever is not as it should be says where."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from context_engine.errors import BrokenFile
from context_engine.models.base import JsonObject

AGAIN = "export the workspace again"
"""The remedy for a file that is damaged."""
BIGGEST = 2**63
"""Ids and orders are smaller than this."""
MOST_LEVELS = 16
"""Deepest nesting of what is kept as it stands."""


@dataclass(frozen=True, slots=True)
class At:
    """An object of the file, and where it stands in it: `export[0].tables[2]`."""

    raw: JsonObject
    place: str

    def broken(self, name: str, message: str) -> BrokenFile:
        return BrokenFile(f"{self.place}.{name}" if self.place else name, message)

    def text(self, name: str, *, default: str | None = None) -> str:
        value = self.raw.get(name, default)
        if not isinstance(value, str):
            raise self.broken(name, f"should be a text; {AGAIN}")
        return clean(value, f"{self.place}.{name}")

    def optional_text(self, name: str) -> str | None:
        return None if self.raw.get(name) is None else self.text(name)

    def number(self, name: str) -> int:
        value = self.raw.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.broken(name, f"should be a whole number; {AGAIN}")
        if abs(value) >= BIGGEST:
            raise self.broken(name, f"should be a whole number below 2^63; {AGAIN}")
        return value

    def optional_number(self, name: str) -> int | None:
        return None if self.raw.get(name) is None else self.number(name)

    def flag(self, name: str) -> bool:
        value = self.raw.get(name, False)
        if not isinstance(value, bool):
            raise self.broken(name, f"should be true or false; {AGAIN}")
        return value

    def list(self, name: str, *, default: bool = False) -> list[JsonValue]:
        value = self.raw.get(name, [] if default else None)
        if not isinstance(value, list):
            raise self.broken(name, f"should be a list; {AGAIN}")
        return value

    def objects(self, name: str, *, default: bool = False) -> Iterator[At]:
        """The objects of a list; with `default`, none where there is no such list."""
        for index, item in enumerate(self.list(name, default=default)):
            place = f"{self.place}.{name}[{index}]" if self.place else f"{name}[{index}]"
            if not isinstance(item, dict):
                raise BrokenFile(place, f"should be an object; {AGAIN}")
            yield At(item, place)

    def rest(self, *known: str) -> JsonObject:
        """What the object says beside `known`, unless it says nothing by it, as the database can
        keep it. Raises `BrokenFile` for what it cannot."""
        nothing: tuple[JsonValue, ...] = (None, "", [], {})
        kept = {k: v for k, v in self.raw.items() if k not in known and v not in nothing}
        for name, value in kept.items():
            clean(name, self.place)
            keepable(value, f"{self.place}.{name}")
        return kept


def parse(data: bytes) -> At:
    """The file as JSON. Raises `BrokenFile` with the line and column where it ends too early."""
    try:
        found = json.loads(data.decode("utf-8-sig"), parse_constant=_no_number)
    except UnicodeDecodeError as error:
        raise BrokenFile(f"byte {error.start}", f"is no UTF-8; {AGAIN}") from error
    except json.JSONDecodeError as error:
        raise BrokenFile(
            f"line {error.lineno}, column {error.colno}",
            f"no JSON from here on ({error.msg}); the file may be cut short: {AGAIN}",
        ) from error
    except RecursionError as error:
        raise BrokenFile("the file", f"is nested too deeply to be an export; {AGAIN}") from error
    except ValueError as error:
        raise BrokenFile("the file", f"{error}; {AGAIN}") from error
    if not isinstance(found, dict):
        raise BrokenFile("the file", f"should be one JSON object with a list `export`; {AGAIN}")
    return At(found, "")


def _no_number(name: str) -> float:
    raise ValueError(f"holds {name}, which is no number")


def clean(value: str, place: str) -> str:
    """Text that the database can hold. Raises `BrokenFile` for a NUL or half a character."""
    if (fault := fault_of(value)) is not None:
        raise BrokenFile(place, fault)
    return value


def keepable(value: JsonValue, place: str, levels: int = MOST_LEVELS) -> None:
    """Raises `BrokenFile` for a value with something in it that no database keeps."""
    if isinstance(value, str):
        clean(value, place)
    elif isinstance(value, float) and not math.isfinite(value):
        raise BrokenFile(place, f"is a number without an end; {AGAIN}")
    elif isinstance(value, list | dict):
        if levels == 0:
            raise BrokenFile(place, f"is nested deeper than {MOST_LEVELS} levels; {AGAIN}")
        if isinstance(value, list):
            for index, one in enumerate(value):
                keepable(one, f"{place}[{index}]", levels - 1)
            return
        for name, one in value.items():
            clean(name, place)
            keepable(one, f"{place}.{name}", levels - 1)


def spelled(value: JsonValue) -> str:
    """A value as a message names it."""
    if isinstance(value, dict):
        return "{..}"
    if isinstance(value, list):
        return "[..]"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def fault_of(value: str) -> str | None:
    """Why the database cannot hold a text; None for one that it can."""
    if "\x00" in value:
        return "holds a NUL character; remove it"
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return "holds half a character (a lone surrogate); remove it"
    return None


def distinct(seen: set[int], at: At, what: str) -> int:
    """The object's id, which no other of its kind has. Raises `BrokenFile`."""
    found = at.number("id")
    if found in seen:
        raise at.broken("id", f"{what} {found} is there twice; {AGAIN}")
    seen.add(found)
    return found
