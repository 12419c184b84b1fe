"""What could be changed of a value, by whoever holds it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import date, tzinfo
from types import MappingProxyType, NoneType

from pydantic import BaseModel

from context_engine.frozen import FrozenDict, FrozenList

PLAIN = (str, bytes, int, float, bool, NoneType, date, tzinfo, frozenset)


def changeable(value: object, place: str = "") -> Iterator[str]:
    """Where in `value` something is that its holder could change, and of what type."""
    if isinstance(value, PLAIN) or type(value) is object:
        return
    if isinstance(value, BaseModel):
        if not value.model_config.get("frozen"):
            yield f"{place}: {type(value).__name__}"
        inside = list(vars(value).items())
    elif is_dataclass(value) and not isinstance(value, type):
        if not type(value).__dataclass_params__.frozen:  # type: ignore[attr-defined]
            yield f"{place}: {type(value).__name__}"
        inside = [(one.name, getattr(value, one.name)) for one in fields(value)]
    elif isinstance(value, FrozenDict | MappingProxyType):
        inside = list(value.items())
    elif isinstance(value, FrozenList | tuple):
        inside = [(str(n), one) for n, one in enumerate(value)]
    else:
        yield f"{place}: {type(value).__name__}"
        return
    for name, one in inside:
        yield from changeable(one, f"{place}.{name}")
