"""What every service does to rows: new ids, checked names, versions that only rise."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import date
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import (
    ColumnElement,
    Row,
    Table,
    Text,
    all_,
    and_,
    any_,
    insert,
    literal,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services.texts import clean_line
from context_engine.adapters.sql.services.writing import Transaction
from context_engine.errors import Conflict, InvalidRequest, NotFound
from context_engine.models.input import Locale_, Zone
from context_engine.models.sections import Role

NAME_CHARS = 500
"""Longest name or title."""

_zone: TypeAdapter[str] = TypeAdapter(Zone)
_locale: TypeAdapter[str] = TypeAdapter(Locale_)


def named(name: str, field: str = "name") -> str:
    """A name: text of one line that is not empty, of at most 500 characters."""
    if not clean_line(name, field, chars=NAME_CHARS).strip():
        raise InvalidRequest("is empty; write a name", field=field)
    return name


def iso_date(value: str | None, field: str) -> date | None:
    """The date of an ISO text. Raises `InvalidRequest`."""
    try:
        return None if value is None else date.fromisoformat(value)
    except ValueError as error:
        raise InvalidRequest("write a date as YYYY-MM-DD", field=field) from error


def zone(value: str | None) -> str | None:
    return _known(_zone, value, "timezone")


def locale(value: str | None) -> str | None:
    return _known(_locale, value, "locale")


def _known(kind: TypeAdapter[str], value: str | None, field: str) -> str | None:
    try:
        return None if value is None else kind.validate_python(value)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]["msg"]
        raise InvalidRequest(fault.removeprefix("Value error, "), field=field) from error


ROLES: tuple[Role, ...] = ("none", "viewer", "commenter", "editor", "builder", "admin")


def role(value: str, *, field: str = "role", also: tuple[str, ...] = ()) -> str:
    """A role that exists, or one of `also`. Raises `InvalidRequest`."""
    if value not in (*ROLES, *also):
        raise InvalidRequest(f"use one of {', '.join((*ROLES, *also))}", field=field)
    return value


def only_given(**values: object) -> dict[str, object]:
    """The arguments of an update that were given: None leaves a thing as it is."""
    return {name: value for name, value in values.items() if value is not None}


# -- statements --------------------------------------------------------------------------------


async def add(tx: Transaction, table: Table, **values: object) -> None:
    """Inserts a row. A taken id ends as `Conflict`."""
    await tx.connection.execute(insert(table).values(**values))


async def find(
    tx: Transaction, table: Table, *where: ColumnElement[bool], lock: bool = False
) -> Row[Any] | None:
    """One row, or None; `lock` keeps others from writing it until the commit."""
    query = select(table).where(*where)
    return (await tx.connection.execute(query.with_for_update() if lock else query)).first()


def among(column: ColumnElement[str | None], ids: Collection[str]) -> ColumnElement[bool]:
    """`column` is one of `ids`: one value of the statement, which takes but so many."""
    return column == any_(literal([*ids], ARRAY(Text)))


def outside(column: ColumnElement[str], ids: Collection[str]) -> ColumnElement[bool]:
    """`column` is none of `ids`."""
    return column != all_(literal([*ids], ARRAY(Text)))


async def raise_version(
    tx: Transaction,
    kind: str,
    table: Table,
    key: Mapping[str, str],
    values: Mapping[str, object],
    expected_version: int | None = None,
) -> int:
    """Updates one row and raises its version, which is returned.

    Raises `NotFound` without a row under `key`, `Conflict` when its version is not the expected.
    """
    where = and_(*(table.c[name] == value for name, value in key.items()))
    change = update(table).where(where).values(**values, version=table.c.version + 1)
    if expected_version is not None:
        change = change.where(table.c.version == expected_version)
    version = (await tx.connection.execute(change.returning(table.c.version))).scalar_one_or_none()
    if version is not None:
        return cast("int", version)
    found = await find(tx, table, where)
    if found is None:
        raise NotFound(kind, list(key.values())[-1])
    raise stale(kind, list(key.values())[-1], found.version, expected_version)


def expect(kind: str, id: str, version: int, expected: int | None) -> None:
    """Raises `Conflict` when `expected` is given and is not `version`."""
    if expected is not None and version != expected:
        raise stale(kind, id, version, expected)


def stale(kind: str, id: str, version: int, expected: int | None) -> Conflict:
    return Conflict(
        f"{kind} {id!r} has version {version}, not {expected}; read it again and repeat the change"
    )


async def next_position(tx: Transaction, table: Table, table_id: str) -> int:
    """The place after the last of a table's fields or views."""
    query = (
        select(table.c.position)
        .where(table.c.table_id == table_id)
        .order_by(table.c.position.desc())
        .limit(1)
    )
    last = (await tx.connection.execute(query)).scalar_one_or_none()
    return 0 if last is None else cast("int", last) + 1


async def active_members(
    tx: Transaction, workspace_id: str, user_ids: Iterable[str], field: str
) -> None:
    """Raises `InvalidRequest` naming the first of `user_ids` who is no active member."""
    wanted = set(user_ids)
    if not wanted:
        return
    query = select(t.members.c.user_id).where(
        t.members.c.workspace_id == workspace_id,
        among(t.members.c.user_id, wanted),
        t.members.c.active,
    )
    missing = wanted - set((await tx.connection.execute(query)).scalars())
    if missing:
        raise InvalidRequest(
            f"{min(missing)!r} is not an active member of the workspace; add them first",
            field=field,
        )
