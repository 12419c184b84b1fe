"""The invalidation consumer between a real broker and a real cache: applied, buried, held up."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine import keys
from context_engine.changes import MemberChanged, RecordsChanged
from tests.support.line import Line, buried, scope
from tests.support.schemas import validate_message
from workers.runner import ExitCode

pytestmark = pytest.mark.timeout(120)


# -- applied -----------------------------------------------------------------------------------


async def test_a_change_ends_what_it_made_untrue_and_says_so(line: Line) -> None:
    """The member who was removed loses contexts and sessions; nobody else does."""
    for who in (scope("u"), scope("x"), scope("u", "other")):
        await line.keep(who)
    change = MemberChanged(workspace_id="w", user_id="u", op="removed")
    async with line.consuming():
        place = await line.client.emit(change)
        [told] = await line.announced(change)
    assert not await line.holds(scope("u"))
    assert await line.cache.session(scope("u")) is None
    for who in (scope("x"), scope("u", "other")):
        assert await line.serves(who)
        assert await line.cache.session(who) is not None
    assert (told.topic, told.partition, told.offset) == (place.topic, place.partition, place.offset)
    assert (told.workspace_id, told.count, told.truncated) == ("w", 2, False)
    assert told.scope_keys == (scope("u").key,)
    secret = line.settings.tag_secret.get_secret_value()
    assert keys.seal(secret, "w", [keys.access("u")])[0] in told.tags
    assert [validate_message(raw) for raw in line.told.seen] == ["context.evicted"]


async def test_what_came_before_the_consumer_is_applied_when_it_starts(line: Line) -> None:
    """A new group reads from the beginning: no change is missed for being early."""
    await line.keep(scope("u"))
    change = MemberChanged(workspace_id="w", user_id="u", op="updated")
    await line.client.emit(change)
    async with line.consuming():
        await line.announced(change)
    assert not await line.serves(scope("u"))
    assert await line.behind() == {}


async def test_an_edit_ends_the_contexts_that_read_the_field_and_no_others(line: Line) -> None:
    await line.keep(scope("u"), keys.value("t", "state"))
    await line.keep(scope("x"), keys.value("t", "name"))
    change = RecordsChanged(workspace_id="w", table_id="t", op="updated", field_ids=("state",))
    async with line.consuming():
        await line.client.emit(change)
        await line.announced(change)
    assert not await line.holds(scope("u"))
    assert await line.serves(scope("x"))


# -- unreadable --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "key", "left"),
    [
        (b"{", b"w", {"other"}),
        (None, b"w", {"other"}),
        (b'{"type": "never.heard", "workspaceId": "w"}', b"\xff", {"other"}),
        (b"{", b"\xff", set()),
        (b"{", None, set()),
    ],
    ids=["its key", "no value", "its data", "a broken key", "no key"],
)
async def test_what_cannot_be_read_ends_its_workspace_or_everything(
    line: Line, value: bytes | None, key: bytes | None, left: set[str]
) -> None:
    """It goes to the dead letters as it came, and the next change is applied as ever."""
    for workspace in ("w", "other"):
        await line.keep(scope("x", workspace))
    later = MemberChanged(workspace_id="third", user_id="u", op="added")
    async with line.consuming():
        place = await line.put(value, key=key)
        await line.told.until(lambda seen: bool(buried(seen)))
        await line.client.emit(later)
        await line.announced(later)
    for workspace in ("w", "other"):
        assert await line.serves(scope("x", workspace)) is (workspace in left)
        assert await line.cache.session(scope("x", workspace)) is not None
    [letter] = buried(line.told.seen)
    headers = dict(letter.headers)
    assert (letter.key, letter.value, letter.partition) == (key, value, place.partition)
    assert headers["kafka_dlt-original-topic"] == place.topic.encode()
    assert headers["kafka_dlt-original-offset"] == place.offset.to_bytes(8, "big")
    assert headers["kafka_dlt-exception-message"]
    assert await line.behind() == {}


# -- parts that are away -----------------------------------------------------------------------


async def test_an_outage_of_the_cache_delays_changes_and_loses_none(line: Line) -> None:
    """Longer than one command's bound, shorter than the consumer's patience."""
    await line.keep(scope("u"))
    change = MemberChanged(workspace_id="w", user_id="u", op="updated")
    async with line.consuming():
        await line.redis.execute_command("CLIENT", "PAUSE", "2500", "ALL")
        await line.client.emit(change)
        await line.announced(change)
    assert not await line.serves(scope("u"))


async def test_a_part_that_it_does_not_need_may_be_away(line: Line, tmp_path: Path) -> None:
    """No database is asked for: marks, evictions and announcements come from the change alone."""
    away = "postgresql+asyncpg://context@127.0.0.1:1/context"
    alone = line.process(tmp_path / "alone.log", CONTEXT_DATABASE_URL=away)
    await alone.start()
    assert await alone.stop() == ExitCode.OK
