"""What is said of a part that cannot be used: where it was looked for, and what to change."""

from __future__ import annotations

import pytest

from context_engine import bootstrap
from context_engine.adapters.sql import engine
from context_engine.adapters.sql.services import DomainServices
from context_engine.errors import Unavailable
from context_engine.settings import Settings
from tests.support.services import RecordingMarker
from tests.support.world import SECRET
from workers.localstack import LocalStack


def settings(**given: object) -> Settings:
    return Settings.model_validate({"tag_secret": SECRET, **given})


async def refusal(redis_url: str) -> str:
    async with bootstrap.parts(settings(redis_url=redis_url)) as parts:
        with pytest.raises(Unavailable) as fault:
            await bootstrap.check_cache(parts)
    return fault.value.message


async def test_a_store_that_is_away_is_told_with_its_address_and_its_setting() -> None:
    message = await refusal("redis://:hidden-words@127.0.0.1:1/0")
    assert message.startswith("redis: 127.0.0.1:1 cannot be used (")
    assert "check that it runs, and that CONTEXT_REDIS_URL has its address and password" in message
    assert "hidden-words" not in message


async def test_a_wrong_password_is_told_with_its_setting(stack: LocalStack) -> None:
    address = stack.redis_url.rpartition("@")[2]
    for url in (f"redis://:hidden-words@{address}", f"redis://{address}"):
        message = await refusal(url)
        assert "CONTEXT_REDIS_URL has its address and password" in message
        assert "hidden-words" not in message


async def test_without_a_free_connection_both_reasons_are_told(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that hangs keeps all connections busy too: more of them would not help."""
    monkeypatch.setattr(engine, "CONNECT_SECONDS", 0.2)
    database = engine.create_engine(settings(database_url=database_url, database_pool_size=1))
    services = DomainServices(database, RecordingMarker(database), ids_as_given=True)
    async with database.connect():
        with pytest.raises(Unavailable) as fault:
            await services.users.create("op", name="N")
    await database.dispose()
    assert "check that it answers, else raise CONTEXT_DATABASE_POOL_SIZE" in fault.value.message
