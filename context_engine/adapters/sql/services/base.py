"""What all services are: a noun's writes over one `Writer`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import iscoroutinefunction, signature
from typing import ClassVar

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from context_engine.adapters.sql.services.texts import storable
from context_engine.adapters.sql.services.writing import Writer
from context_engine.errors import InvalidRequest
from context_engine.models import invalid

MOST_DEPTH = 32
"""How deep lists and objects may be nested in what a caller gives."""
MOST_ITEMS = 20_000
"""Most items of a list or an object anywhere in it: what has no lower bound of its own."""
MOST_WHOLE = 2**63
"""Whole numbers that steer a call (versions, limits) are less: the database holds no larger."""


class Service:
    """Every method is one transaction, and names its actor first.

    All raise `NotFound` for what is missing or out of the actor's sight, `NotPermitted`,
    `InvalidRequest` naming the field and the remedy, `Conflict` where `expected_version` is not
    the version found, `Unavailable`, and `NotYetEnforced` for a change of access that is
    committed while its mark does not stand.
    """

    most_items: ClassVar[int | None] = MOST_ITEMS
    """None where whoever calls is trusted with size."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def __init_subclass__(cls) -> None:
        """Every public method looks at all that it is given before it does anything."""
        for name, method in list(vars(cls).items()):
            if iscoroutinefunction(method) and not name.startswith("_"):
                setattr(cls, name, _checked(method, cls.most_items))


def _checked(
    method: Callable[..., Awaitable[object]], most_items: int | None
) -> Callable[..., Awaitable[object]]:
    """`method`, which refuses what cannot be stored, naming the argument that holds it."""
    shape = signature(method)

    @wraps(method)
    async def checked(*args: object, **named: object) -> object:
        given = shape.bind(*args, **named).arguments
        for name, value in list(given.items())[1:]:  # the first is the service
            _check(value, to_camel(name), MOST_DEPTH, most_items)
            if isinstance(value, int) and abs(value) >= MOST_WHOLE:
                raise InvalidRequest("out of range; write a smaller number", field=to_camel(name))
        try:
            return await method(*args, **named)
        except ValidationError as error:
            raise invalid(error) from error

    return checked


def _check(value: object, place: str, depth: int, most_items: int | None) -> None:
    """Raises `InvalidRequest` for text in `value` that no database takes, for what is too deep to
    be walked (whoever encodes it would run out of stack), and for lists that are too long."""
    if isinstance(value, str):
        storable(value, place)
        return
    inside: list[tuple[object, object]] = []
    if isinstance(value, Mapping):
        for key in value:
            _check(key, place, 1, None)
        inside = list(value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        inside = list(enumerate(value))
    elif is_dataclass(value):
        inside = [(to_camel(one.name), getattr(value, one.name)) for one in fields(value)]
    if inside and depth <= 0:
        raise InvalidRequest(f"nested deeper than {MOST_DEPTH}; flatten it", field=_short(place))
    if most_items is not None and len(inside) > most_items:
        raise InvalidRequest(f"more than {most_items:,} items; send fewer", field=_short(place))
    for key, one in inside:
        _check(one, f"{place}.{key}", depth - 1, most_items)


def _short(place: str) -> str:
    """The beginning of a place that is as deep as what was refused."""
    return ".".join(place.split(".")[:3])
