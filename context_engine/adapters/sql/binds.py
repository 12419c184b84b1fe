"""Bind parameters of conditions that are written as text."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from pydantic import JsonValue
from sqlalchemy import BindParameter, ColumnElement, and_, bindparam, text, true


@dataclass(slots=True)
class Binds:
    """The bind parameters of one statement; each method adds one and returns its placeholder.

    A text that was bound before keeps its placeholder: the ids of fields and users come again and
    again. `named`: as SQLAlchemy's `text` wants them, `:b1`; else as the server does, `$1`.
    """

    named: bool = False
    values: list[object] = field(default_factory=list)
    _texts: dict[str, str] = field(default_factory=dict)

    def text(self, value: str) -> str:
        if value not in self._texts:
            self._texts[value] = self._add(value, "text")
        return self._texts[value]

    def texts(self, values: list[str]) -> str:
        return self._add(values, "text[]")

    def number(self, value: float) -> str:
        exact = Decimal(value) if isinstance(value, int) else Decimal(str(value))
        return self._add(exact, "numeric")

    def time(self, value: datetime) -> str:
        return self._add(value, "timestamptz")

    def json(self, value: JsonValue) -> str:
        return self._add(json.dumps(value), "jsonb")

    def jsons(self, values: list[JsonValue]) -> str:
        return self._add([json.dumps(value) for value in values], "jsonb[]")

    def _add(self, value: object, type: str) -> str:
        self.values.append(value)
        place = f":b{len(self.values)}" if self.named else f"${len(self.values)}"
        return f"CAST({place} AS {type})"


def as_condition(sql: Callable[[Binds], str]) -> ColumnElement[bool]:
    """SQL with its own bind parameters as a part of an SQLAlchemy statement."""
    binds = Binds(named=True)
    condition = text(f"({sql(binds)})")
    named: list[BindParameter[object]] = [
        bindparam(f"b{n}", value, unique=True) for n, value in enumerate(binds.values, 1)
    ]
    return and_(true(), condition.bindparams(*named))
