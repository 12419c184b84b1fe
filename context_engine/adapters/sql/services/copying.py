"""COPY, inside the transaction of a write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from asyncpg.exceptions import IntegrityConstraintViolationError, PostgresError
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from context_engine.loading import Progress

EVERY = 2_000
"""Rows between two reports of progress."""


async def copy(
    connection: AsyncConnection,
    table: str,
    columns: Sequence[str],
    rows: Iterable[tuple[object, ...]],
    *,
    seconds: float,
) -> None:
    """Copies `rows` into `table`, in the transaction that `connection` is in, within `seconds`.

    At least one statement of the transaction must have run: SQLAlchemy begins it with that.
    The driver's errors come as SQLAlchemy's.
    """
    raw = await connection.get_raw_connection()
    driver: Any = raw.driver_connection  # asyncpg's own
    try:
        await driver.copy_records_to_table(table, columns=columns, records=rows, timeout=seconds)
    except IntegrityConstraintViolationError as error:
        raise IntegrityError(f"COPY {table}", None, error) from error
    except PostgresError as error:
        raise DBAPIError(f"COPY {table}", None, error) from error


def told(
    rows: Iterable[tuple[object, ...]], progress: Progress, start: int, total: int
) -> Iterator[tuple[object, ...]]:
    """`rows`, reported as they go."""
    for number, row in enumerate(rows, start):
        if number % EVERY == 0:
            progress("writing", number, total)
        yield row
