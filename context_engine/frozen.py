"""JSON that nobody can change: of what a process keeps for all that it serves."""

from __future__ import annotations

from typing import NoReturn, cast

from pydantic import JsonValue


def _refused(_self: object, *_: object, **__: object) -> NoReturn:
    raise TypeError("kept for every request; change a copy.deepcopy of it")


class FrozenDict(dict[str, JsonValue]):
    """A dict to read, compare, encode and copy. `copy.deepcopy` gives a plain one."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refused
    clear = pop = popitem = setdefault = update = _refused

    def __reduce__(self) -> tuple[type, tuple[dict[str, JsonValue]]]:
        return dict, (dict(self),)


class FrozenList(list[JsonValue]):
    """The same of a list."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refused
    append = clear = extend = insert = pop = remove = reverse = sort = _refused

    def __reduce__(self) -> tuple[type, tuple[list[JsonValue]]]:
        return list, (list(self),)


def frozen(value: JsonValue) -> JsonValue:
    """`value`, which no one can change from here on, however deep."""
    if isinstance(value, FrozenDict | FrozenList):
        return value
    if isinstance(value, dict):
        made = FrozenDict({name: frozen(one) for name, one in value.items()})
        return cast("JsonValue", made)
    if isinstance(value, list):
        return cast("JsonValue", FrozenList(map(frozen, value)))
    return value
