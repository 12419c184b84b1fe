"""What tells two JSON values apart: a pure comparison, down to the paths that changed.

Objects are compared name by name, lists of objects with ids object by object; any other list, and
an object that has another id, is one value. `applied(old, diff(old, new))` is `new`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, NamedTuple

from pydantic import JsonValue

from context_engine.models.base import JsonObject

IDENTITIES = ("id", "messageId", "fieldId")
"""Names by which objects of a list are told apart; the first that all of them have serves."""


class Missing(Enum):
    """No value at all, which JSON's null is not."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING

Kind = Literal["appeared", "went", "changed", "reordered"]
Value = JsonValue | Missing


class Item(NamedTuple):
    """The object of a list whose `key` is `id`; null for the one that has none yet."""

    key: str
    id: str | None


Path = tuple[str | Item, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. `reordered`: `old` and `new` are the ids of a list, in order."""

    path: Path
    old: Value
    new: Value
    kind: Kind


def diff(old: JsonValue, new: JsonValue, path: Path = ()) -> tuple[Change, ...]:
    """Every difference between two values, in the order of `old`, then of what is new."""
    return tuple(_differences(old, new, path))


def _differences(old: JsonValue, new: JsonValue, path: Path) -> Iterator[Change]:
    if isinstance(old, dict) and isinstance(new, dict) and _same_object(old, new):
        yield from _in_objects(old, new, path)
    elif isinstance(old, list) and isinstance(new, list) and (key := _identity(old, new)):
        yield from _in_lists(_by_id(old, key), _by_id(new, key), key, path)
    elif not _equal(old, new):
        yield _change(path, old, new)


def _in_objects(old: JsonObject, new: JsonObject, path: Path) -> Iterator[Change]:
    for name in (*old, *(name for name in new if name not in old)):
        here = (*path, name)
        if name in old and name in new:
            yield from _differences(old[name], new[name], here)
        else:
            yield _change(here, old.get(name, MISSING), new.get(name, MISSING))


Objects = dict[str | None, JsonObject]


def _in_lists(old: Objects, new: Objects, key: str, path: Path) -> Iterator[Change]:
    for id in (*old, *(id for id in new if id not in old)):
        here = (*path, Item(key, id))
        if id in old and id in new:
            yield from _in_objects(old[id], new[id], here)
        else:
            yield _change(here, old.get(id, MISSING), new.get(id, MISSING))
    if [*(id for id in old if id in new), *(id for id in new if id not in old)] != list(new):
        yield Change(path, list(old), list(new), "reordered")


def _change(path: Path, old: Value, new: Value) -> Change:
    """Of two values that are not the same; null is as little as one can be told."""
    rank = [0 if one is MISSING else 1 if one is None else 2 for one in (old, new)]
    kind: Kind = "changed"
    if min(rank) < 2 and rank[0] != rank[1]:
        kind = "appeared" if rank[0] < rank[1] else "went"
    return Change(path, old, new, kind)


def _same_object(old: JsonObject, new: JsonObject) -> bool:
    return _equal(old.get("id"), new.get("id"))


def _identity(old: Sequence[JsonValue], new: Sequence[JsonValue]) -> str | None:
    """The name by which the objects of both lists are told apart; None where nothing does."""
    for key in IDENTITIES:
        if (old or new) and _identified(old, key) and _identified(new, key):
            return key
    return None


def _identified(values: Sequence[JsonValue], key: str) -> bool:
    ids = [one.get(key, MISSING) if isinstance(one, dict) else MISSING for one in values]
    known = all(id is None or isinstance(id, str) for id in ids)
    return known and len(set(map(_text, ids))) == len(ids)


def _by_id(values: Sequence[JsonValue], key: str) -> Objects:
    return {_id(one[key]): one for one in values if isinstance(one, dict)}


def _id(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _text(value: Value) -> str:
    return "" if value is MISSING else json.dumps(value, sort_keys=True)


def _equal(old: Value, new: Value) -> bool:
    """As JSON: true is not 1, and 1 is not 1.0."""
    return _text(old) == _text(new)


# -- the way back ------------------------------------------------------------------------------


def applied(value: JsonValue, changes: Sequence[Change]) -> JsonValue:
    """`value` with `changes` made to it. Raises `ValueError` where a path leads nowhere."""
    for change in changes:
        made = _made(value, change.path, change)
        if made is MISSING:
            raise ValueError("the whole value is gone")
        value = made
    return value


def _made(value: Value, path: Path, change: Change) -> Value:
    if not path:
        return _reordered(value, change.new) if change.kind == "reordered" else change.new
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        if not isinstance(value, dict):
            raise ValueError(f"no object at {path_text(change.path)}")
        return _put(value, step, _made(value.get(step, MISSING), rest, change))
    if not isinstance(value, list):
        raise ValueError(f"no list at {path_text(change.path)}")
    items = {_text(id): one for id, one in _by_id(value, step.key).items()}
    at = _text(step.id)
    made = _made(items.get(at, MISSING), rest, change)
    left = {id: one for id, one in items.items() if id != at or made is not MISSING}
    return list((left if made is MISSING else {**left, at: made}).values())


def _put(value: JsonObject, name: str, made: Value) -> JsonObject:
    if made is MISSING:
        return {key: one for key, one in value.items() if key != name}
    return {**value, name: made}


def _reordered(value: Value, ids: Value) -> JsonValue:
    if not isinstance(value, list) or not isinstance(ids, list):
        raise ValueError("no list to put in order")
    key = _identity(value, [])
    if key is None:
        raise ValueError("a list without ids to put in order")
    items = _by_id(value, key)
    return [items[_id(id)] for id in ids]


def path_text(path: Path) -> str:
    """A path as people read it: `tables[tbl-tasks].recordCount.value`."""
    parts: list[str] = []
    for step in path:
        if isinstance(step, Item):
            parts.append(f"[{'current' if step.id is None else step.id}]")
        else:
            parts.append(f".{step}" if parts else step)
    return "".join(parts)


def change_json(change: Change) -> JsonObject:
    """A change for programs; a side without a value is left out."""
    sides: Mapping[str, Value] = {"old": change.old, "new": change.new}
    known: JsonObject = {name: one for name, one in sides.items() if one is not MISSING}
    return {"path": path_text(change.path), "kind": change.kind, **known}
