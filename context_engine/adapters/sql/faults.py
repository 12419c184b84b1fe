"""What the database says, in the words of this package."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from asyncpg.exceptions import DataError, InterfaceError, InternalClientError, PostgresError
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from context_engine.errors import Conflict, ContextEngineError, InvalidRequest, Unavailable

UNIQUE = "23505"
BAD_DATA = "22"
DEADLOCK, SERIALIZATION = "40P01", "40001"
QUERY_CANCELED = "57014"
UNDEFINED_TABLE, UNDEFINED_COLUMN = "42P01", "42703"
CONNECTION_LOST = ("08", "25", "53", "57")
"""Classes of codes after which another connection may do; 25: not the transaction it seemed."""
TOO_MANY = "number of query arguments"
"""In what the driver says of more values than a statement takes, which no connection would."""


@asynccontextmanager
async def database_faults() -> AsyncIterator[None]:
    """The driver's errors as `Conflict`, `InvalidRequest` or `Unavailable`; ours pass through.

    They come bare where the driver was asked itself, and wrapped where SQLAlchemy was.
    """
    try:
        yield
    except IntegrityError as error:
        raise _integrity(error) from error
    except (DBAPIError, PostgresError, InterfaceError, InternalClientError) as error:
        if (ours := _in_our_words(error)) is None:
            raise
        raise ours from error
    except PoolTimeout as error:
        raise Unavailable(
            "database",
            "no connection became free in time: it does not answer, or all are in use; check that"
            " it answers, else raise CONTEXT_DATABASE_POOL_SIZE",
        ) from error
    except OSError as error:
        raise Unavailable("database", "does not answer; is PostgreSQL up?") from error


def _in_our_words(error: Exception) -> ContextEngineError | None:
    code = sqlstate(error)
    if code is None and TOO_MANY in str(getattr(error, "orig", error)):
        return InvalidRequest("holds more values than one statement takes; send fewer in one call")
    if isinstance(error, DataError) or (code or "")[:2] == BAD_DATA:
        return InvalidRequest(
            "holds what the database cannot store, such as a NUL character; remove it"
        )
    if code in (DEADLOCK, SERIALIZATION):
        return Unavailable("database", "another write was in the way; try again")
    if code == QUERY_CANCELED:
        return Unavailable("database", "a statement took too long; try again")
    if code in (UNDEFINED_TABLE, UNDEFINED_COLUMN):
        return Unavailable(
            "database", "its schema is not this version's; run `context-engine migrate`"
        )
    lost = isinstance(error, DBAPIError) and error.connection_invalidated
    if lost or (code or "08")[:2] in CONNECTION_LOST:
        return Unavailable("database", "the connection was lost; try again")
    return None


def sqlstate(error: Exception) -> str | None:
    """PostgreSQL's code of five characters; None where the server never answered."""
    code = getattr(getattr(error, "orig", error), "sqlstate", None)
    return code if isinstance(code, str) else None


def _integrity(error: IntegrityError) -> Conflict:
    if sqlstate(error) == UNIQUE:
        return Conflict("the id or a name that must be unique is taken; choose another")
    return Conflict("what this refers to is gone or may not be so; read again and retry")
