"""What the database says, in the words of this package."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from context_engine.errors import Conflict, InvalidRequest, Unavailable

UNIQUE = "23505"
BAD_DATA = "22"
DEADLOCK, SERIALIZATION = "40P01", "40001"
QUERY_CANCELED = "57014"
UNDEFINED_TABLE, UNDEFINED_COLUMN = "42P01", "42703"


@asynccontextmanager
async def database_faults() -> AsyncIterator[None]:
    """The driver's errors as `Conflict`, `InvalidRequest` or `Unavailable`; ours pass through."""
    try:
        yield
    except IntegrityError as error:
        raise _integrity(error) from error
    except DBAPIError as error:
        if (sqlstate(error) or "")[:2] == BAD_DATA:
            raise InvalidRequest(
                "holds what the database cannot store, such as a NUL character; remove it"
            ) from error
        if sqlstate(error) in (DEADLOCK, SERIALIZATION):
            raise Unavailable("database", "another write was in the way; try again") from error
        if sqlstate(error) == QUERY_CANCELED:
            raise Unavailable("database", "a statement took too long; try again") from error
        if sqlstate(error) in (UNDEFINED_TABLE, UNDEFINED_COLUMN):
            raise Unavailable(
                "database", "its schema is not this version's; run `context-engine migrate`"
            ) from error
        if error.connection_invalidated or (sqlstate(error) or "08")[:2] in ("08", "53", "57"):
            raise Unavailable("database", "the connection was lost; try again") from error
        raise
    except PoolTimeout as error:
        raise Unavailable(
            "database", "every connection is in use; raise CONTEXT_DATABASE_POOL_SIZE"
        ) from error
    except OSError as error:
        raise Unavailable("database", "does not answer; is PostgreSQL up?") from error


def sqlstate(error: DBAPIError) -> str | None:
    """PostgreSQL's code of five characters; None where the server never answered."""
    code = getattr(error.orig, "sqlstate", None)
    return code if isinstance(code, str) else None


def _integrity(error: IntegrityError) -> Conflict:
    if sqlstate(error) == UNIQUE:
        return Conflict("the id or a name that must be unique is taken; choose another")
    return Conflict("what this refers to is gone or may not be so; read again and retry")
