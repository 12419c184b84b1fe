"""Bind parameters of conditions that are written as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from json.encoder import encode_basestring_ascii

from pydantic import JsonValue
from sqlalchemy import BindParameter, ColumnElement, and_, bindparam, text, true


@dataclass(slots=True)
class Binds:
    """The bind parameters of one statement; each method adds one and returns its placeholder.

    What was bound before keeps its placeholder: the ids of fields and users come again and again,
    and so do days, and lists of what a user's attributes are. `named`: as SQLAlchemy's `text`
    wants them, `:b1`; else as the server does, `$1`. `by_row`: whether the statement asks of row
    after row what no index answers, by keys alone. It is planned in no time, and slow over many.
    """

    named: bool = False
    by_row: bool = False
    values: list[object] = field(default_factory=list)
    _places: dict[tuple[str, Hashable], str] = field(default_factory=dict)

    def text(self, value: str) -> str:
        return self._place("text", value)

    def texts(self, values: list[str]) -> str:
        return self._place("text[]", tuple(values))

    def number(self, value: float) -> str:
        exact = Decimal(value) if isinstance(value, int) else Decimal(str(value))
        return self._place("numeric", exact)

    def time(self, value: datetime) -> str:
        return self._place("timestamptz", value)

    def json(self, value: JsonValue) -> str:
        return self._place("jsonb", _json(value))

    def jsons(self, values: list[JsonValue]) -> str:
        return self._place("jsonb[]", tuple(map(_json, values)))

    def _place(self, type: str, value: Hashable) -> str:
        place = self._places.get((type, value))
        if place is None:
            self.values.append(list(value) if isinstance(value, tuple) else value)
            name = f":b{len(self.values)}" if self.named else f"${len(self.values)}"
            place = self._places[type, value] = f"CAST({name} AS {type})"
        return place


def _json(value: JsonValue) -> str:
    """Most are texts, and there may be ten thousand."""
    return encode_basestring_ascii(value) if isinstance(value, str) else json.dumps(value)


def as_condition(sql: Callable[[Binds], str]) -> ColumnElement[bool]:
    """SQL with its own bind parameters as a part of an SQLAlchemy statement."""
    binds = Binds(named=True)
    condition = text(f"({sql(binds)})")
    named: list[BindParameter[object]] = [
        bindparam(f"b{n}", value, unique=True) for n, value in enumerate(binds.values, 1)
    ]
    return and_(true(), condition.bindparams(*named))
