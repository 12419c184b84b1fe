"""What `migrate` does with a database that is not as it expects."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from context_engine.adapters.sql import migrate
from context_engine.errors import Unavailable
from tests.support.stack import Databases


async def test_a_database_of_a_later_version_is_left_as_it_is(databases: Databases) -> None:
    """Old hosts migrate at their start, also in the middle of an upgrade: they say which schema is
    there, and not in a traceback."""
    url = await databases.create()
    later = create_async_engine(url, poolclass=NullPool)
    async with later.begin() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(Unavailable, match="9999, is of a later version"):
        await migrate.upgrade(url)
    await databases.drop(url)
