"""The main line over the bus: asked, answered, cached, taken back, refused."""

from __future__ import annotations

import asyncio

import pytest

from context_engine.bootstrap import Parts
from context_engine.changes import MemberChanged
from context_engine.errors import NotFound
from context_engine.models import ContextBuildInput
from context_engine.settings import Settings
from events.client import ContextClient
from events.messages import BuildOptions
from tests.support.applied import until_applied

WAIT_SECONDS = 30.0


def where(user: str = "ana", **more: object) -> ContextBuildInput:
    return ContextBuildInput.model_validate(
        {"userId": user, "workspaceId": "w", "tableIds": ["t0"], **more}
    )


async def test_a_request_is_answered_and_answered_again_from_the_cache(
    client: ContextClient,
) -> None:
    """The whole line through real processes; the second answer is the first's context."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            built = await client.request(where(), options=BuildOptions(fresh=True))
            assert built.source == "build"
            cached = await client.request(where())
            if cached.source == "cache":
                break  # else others' changes, still on their way, came between
    assert cached.context.context_id == built.context.context_id
    assert cached.context_hash == built.context_hash
    assert cached.context.table == built.context.table


async def test_many_at_once_each_get_their_own(client: ContextClient) -> None:
    """300 requests of two users in flight together, for a few builds: more than may wait for
    builds of their own, none is turned away."""
    users = ["ana", "bob"] * 150
    answers = await asyncio.gather(
        *(client.request(where(user, message=f"m{n % 7}")) for n, user in enumerate(users))
    )
    assert [ready.context.user.id for ready in answers] == users


async def test_a_revoked_right_is_refused_and_announced(
    client: ContextClient, parts: Parts, settings: Settings
) -> None:
    """The service's answer is the moment: the next request is refused, whatever the bus does."""
    await until_applied(settings, parts)  # else another's change may evict it, and be told of
    async with client.subscribe_evictions("w") as evictions, asyncio.timeout(WAIT_SECONDS):
        while (ready := await client.request(where("bob", tableIds=["t1"]))).source != "cache":
            pass
        written = await parts.services.grants.set(
            "ana", "w", subject_type="user", subject_id="bob", scope_id="t1", role="none"
        )  # fmt: skip
        assert written.marked
        with pytest.raises(NotFound):
            await client.request(where("bob", tableIds=["t1"]))
        while (announced := await anext(evictions)).change_id != written.changes[0].change_id:
            pass  # others' changes
    assert set(announced.tags) & set(ready.context.tags)
    assert ready.context.scope_key in announced.scope_keys


async def test_an_emitted_change_takes_effect(client: ContextClient) -> None:
    """A product without our domain emits; once it is announced, nothing older is served."""
    async with client.subscribe_evictions("w") as evictions, asyncio.timeout(WAIT_SECONDS):
        while (await client.request(where())).source != "cache":
            pass
        change = MemberChanged(workspace_id="w", user_id="ana", op="updated")
        await client.emit(change)
        while (await anext(evictions)).change_id != change.change_id:
            pass
    assert (await client.request(where())).source == "build"


async def test_replies_are_seen_by_subscribers(client: ContextClient) -> None:
    """Whoever subscribes to ready contexts sees them, of their workspace."""
    async with client.subscribe_ready("w") as ready, asyncio.timeout(20):
        asked = await client.request(where())
        async for seen in ready:
            assert seen.context.workspace.id == "w"
            if seen.request_id == asked.request_id:
                break
