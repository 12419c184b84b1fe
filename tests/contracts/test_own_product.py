"""A product with a database of its own: its ports, its rule and its changes, on a real cache."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from context_engine import bootstrap, policy, view_filters
from context_engine.access import resolve
from context_engine.bootstrap import Answering
from context_engine.changes import AnyChange, MemberChanged
from context_engine.errors import NotFound, NotYetEnforced, Unavailable
from context_engine.keys import Coordinates
from context_engine.models import AgentContext, ContextBuildInput
from context_engine.models.sections import Count
from context_engine.reading import read, visible
from context_engine.sections.surface import build_surface
from context_engine.settings import Settings
from events.client import ContextClient
from events.topics import Topics, ensure
from examples.own_product import Database, Helpdesk, HelpdeskDomain, SqliteSnapshots, marking
from examples.own_product.conditions import condition
from tests.support.world import SECRET
from workers import invalidate
from workers.house import settings_of, until_live
from workers.localstack import LocalStack

ROOT = Path(__file__).parents[2]
ADAPTERS = ROOT / "docs" / "adapters.md"
W = "harbour"


@dataclass(frozen=True, slots=True)
class Desk:
    """The product and an engine over it, in one process."""

    house: Answering
    helpdesk: Helpdesk
    database: Database

    async def ask(self, user: str, *tables: str, **more: Any) -> AgentContext:
        where = {"userId": user, "workspaceId": W, "tableIds": list(tables), **more}
        answer = await self.house.engine.build(ContextBuildInput.model_validate(where))
        return AgentContext.model_validate_json(answer.context)

    async def seen(self, user: str, queue: str = "billing") -> int | None:
        (table,) = (await self.ask(user, queue)).tables
        return table.record_count.value


async def furnish(helpdesk: Helpdesk) -> None:
    """Lead `lea`, agent `amir` in `billing`, guest `gus` with one of three tickets there."""
    await helpdesk.found(W, "Harbour Support", lead="lea")
    await helpdesk.add_person(W, "amir", "agent")
    await helpdesk.add_person(W, "gus", "guest")
    await helpdesk.open_queue(W, "billing", "Billing")
    await helpdesk.open_queue(W, "legal", "Legal")
    await helpdesk.join_queue(W, "billing", "amir")
    for by in ("gus", "ria", "ria"):
        await helpdesk.open_ticket(W, "billing", f"From {by}", by=by)


@pytest.fixture
async def database(tmp_path: Path) -> Database:
    made = Database(tmp_path / "helpdesk.sqlite")
    await made.prepare()
    return made


@pytest.fixture
async def desk(database: Database, redis_url: str) -> AsyncIterator[Desk]:
    settings = Settings.model_validate(
        {"redis_url": redis_url, "tag_secret": SECRET, "liveness": "assumed"}
    )
    domain, snapshots = HelpdeskDomain(database), SqliteSnapshots(database)
    async with bootstrap.over(domain, snapshots, settings) as house:
        await house.cache.mark(W, frozenset(), create=True)
        helpdesk = Helpdesk(database, marking(house.cache))
        await furnish(helpdesk)
        yield Desk(house, helpdesk, database)


async def test_the_products_rule_decides(desk: Desk) -> None:
    """A lead sees every ticket, an agent the queues joined, a guest their own tickets."""
    assert await desk.seen("lea") == 3
    assert await desk.seen("amir") == 3
    assert await desk.seen("gus") == 1
    assert await desk.seen("lea", "legal") == 0
    with pytest.raises(NotFound):
        await desk.ask("amir", "legal")
    with pytest.raises(NotFound):
        await desk.ask("nobody", "billing")


async def test_an_agent_made_a_guest_sees_their_own_tickets(desk: Desk) -> None:
    """Queues joined before give nothing to a guest, and are there again for the agent."""
    await desk.helpdesk.open_ticket(W, "billing", "Mine", by="amir")
    assert await desk.seen("amir") == 4
    await desk.helpdesk.set_level(W, "amir", "guest")
    assert await desk.seen("amir") == 1
    await desk.helpdesk.set_level(W, "amir", "agent")
    assert await desk.seen("amir") == 4


async def test_what_the_product_lacks_is_absent(desk: Desk) -> None:
    """Projects, teams and the like are out of sight, not an error."""
    context = await desk.ask("lea", "billing", projectId="p", teamId="t")
    assert {one.coordinate for one in context.unresolved} == {"projectId", "teamId"}


async def test_the_view_is_counted_apart(desk: Desk) -> None:
    """The product's one view, by its filter, within the rows in sight."""
    ticket = await desk.helpdesk.open_ticket(W, "billing", "Again", by="gus")
    await desk.helpdesk.close_ticket(W, "billing", ticket)
    for user, tickets, still_open in (("lea", 4, 3), ("gus", 2, 1)):
        context = await desk.ask(user, "billing", viewId="billing:open")
        assert context.tables[0].record_count.value == tickets
        assert context.view is not None
        assert context.view.record_count.value == still_open


@pytest.mark.parametrize(
    ("filter", "reason"),
    [
        ({"where": {"unavailable": "no such operator"}}, "no such operator"),
        ({"where": {"every": []}}, view_filters.NOT_COMPUTED),
    ],
)
async def test_a_view_that_cannot_be_counted_is_unavailable(
    desk: Desk, filter: JsonValue, reason: str
) -> None:
    """With the reason that `access` gives; and whatever is in the language of views."""
    at = Coordinates(W, "lea", table_ids=("billing",), view_id="billing:open")
    async with desk.house.domain.snapshot() as reads:
        facts, _ = await read(reads, at)
        (table,) = facts.tables
        view = table.views[0].model_copy(update={"filter": filter})
        table = table.model_copy(update={"views": (view,)})
        scope = resolve(facts.model_copy(update={"tables": (table,)}), at)
        counts = await reads.counts(scope)
        surface = build_surface(scope, counts, at)
    assert surface.view is not None
    assert surface.view.record_count == Count.missing(reason)
    assert counts.tables["billing"].value == 3


async def test_each_write_takes_back_what_it_made_untrue(desk: Desk) -> None:
    """Cached before, built after, and never the old number."""
    assert await desk.seen("amir") == 3
    assert (await desk.ask("amir", "billing")).source == "cache"
    ticket = await desk.helpdesk.open_ticket(W, "billing", "New", by="gus")
    assert await desk.seen("amir") == 4
    await desk.ask("amir", "billing", viewId="billing:open")
    await desk.helpdesk.close_ticket(W, "billing", ticket)
    context = await desk.ask("amir", "billing", viewId="billing:open")
    assert context.view is not None
    assert context.view.record_count.value == 3
    await desk.helpdesk.rename_queue(W, "billing", "Invoices")
    assert (await desk.ask("amir", "billing")).tables[0].name == "Invoices"
    await desk.helpdesk.leave_queue(W, "billing", "amir")
    with pytest.raises(NotFound):
        await desk.ask("amir", "billing")
    await desk.helpdesk.join_queue(W, "billing", "amir")
    assert await desk.seen("amir") == 4
    await desk.helpdesk.set_level(W, "gus", "lead")
    assert await desk.seen("gus") == 4
    await desk.helpdesk.remove_person(W, "gus")
    with pytest.raises(NotFound):
        await desk.ask("gus", "billing")


async def test_a_thread_is_for_its_people(desk: Desk) -> None:
    """The dialogue comes with the facts; the next post takes the old one back."""
    await desk.helpdesk.open_thread(W, "th", "Refunds", "lea", "amir")
    await desk.helpdesk.post(W, "th", "lea", "Who can refund this?")
    context = await desk.ask("amir", conversationId="th")
    assert context.conversation is not None
    assert [turn.content for turn in context.conversation.recent_turns] == ["Who can refund this?"]
    await desk.helpdesk.post(W, "th", "amir", "I can.")
    context = await desk.ask("amir", conversationId="th")
    assert context.conversation is not None
    assert [turn.content for turn in context.conversation.recent_turns][-1] == "I can."
    with pytest.raises(NotFound):
        await desk.ask("gus", conversationId="th")
    await desk.helpdesk.remove_person(W, "amir")
    with pytest.raises(NotFound):
        await desk.ask("amir", conversationId="th")


async def test_evidence_is_kept_in_the_products_database(desk: Desk) -> None:
    """As it was told, with the rules that denied; once."""
    context = await desk.ask("gus", "billing", projectId="p")
    record = await desk.house.snapshots.get(context.context_id)
    assert record is not None
    assert AgentContext.model_validate_json(record.context) == context
    assert "project p" in str(record.operator_trace)
    await desk.house.snapshots.save(record)
    assert await desk.house.snapshots.get(context.context_id) == record
    assert await desk.house.snapshots.get("none") is None


async def test_a_change_that_could_not_be_emitted_is_emitted_later(database: Database) -> None:
    """It was committed with the write, so nothing is lost; in order, each once."""
    told: list[AnyChange] = []
    away = True

    async def emit(change: AnyChange) -> None:
        if away:
            raise Unavailable("broker", "away")
        told.append(change)

    helpdesk = Helpdesk(database, emit)
    with pytest.raises(NotYetEnforced, match="the write is committed"):
        await helpdesk.found(W, "Harbour Support", lead="lea")
    with pytest.raises(NotYetEnforced):
        await helpdesk.add_person(W, "amir", "agent")
    away = False
    await helpdesk.publish()
    await helpdesk.publish()
    assert [one.user_id for one in told if isinstance(one, MemberChanged)] == ["lea", "amir"]


async def test_each_write_emits_what_the_documentation_says(database: Database) -> None:
    """The table of docs/adapters.md, write by write."""
    told: list[AnyChange] = []

    async def emit(change: AnyChange) -> None:
        told.append(change)

    desk = Helpdesk(database, emit)
    writes: dict[str, Callable[[], Awaitable[object]]] = {
        "found": lambda: desk.found(W, "Harbour Support", lead="lea"),
        "add_person": lambda: desk.add_person(W, "amir", "agent"),
        "set_level": lambda: desk.set_level(W, "amir", "guest"),
        "open_queue": lambda: desk.open_queue(W, "q", "Queue"),
        "rename_queue": lambda: desk.rename_queue(W, "q", "Other"),
        "join_queue": lambda: desk.join_queue(W, "q", "amir"),
        "leave_queue": lambda: desk.leave_queue(W, "q", "amir"),
        "open_ticket": lambda: desk.open_ticket(W, "q", "Help", by="gus"),
        "close_ticket": lambda: desk.close_ticket(W, "q", "some"),
        "open_thread": lambda: desk.open_thread(W, "t", "Talk", "amir"),
        "post": lambda: desk.post(W, "t", "amir", "Hello"),
        "remove_person": lambda: desk.remove_person(W, "amir"),
    }
    emitted = {}
    for name, write in writes.items():
        told.clear()
        await write()
        emitted[name] = ", ".join(dict.fromkeys(f"`{change.type}`" for change in told))
    table = re.findall(r"^\| `(\w+)` \| (`.*`) \|$", ADAPTERS.read_text(), re.MULTILINE)
    assert dict(table) == emitted


async def test_what_is_not_understood_holds_for_no_row() -> None:
    """Also inside of a negation: the whole condition fails closed."""
    unknown = {"not": {"cmp": {"ref": "field:state", "op": "gt", "operand": {"literal": "a"}}}}
    assert condition(policy.parse(unknown), []) == "0"
    values: list[Any] = []
    open_ = {"cmp": {"ref": "field:state", "op": "eq", "operand": {"literal": "open"}}}
    assert condition(policy.parse({"any": [open_, False]}), values) == "(0 OR state = ? OR 0)"
    assert values == ["open"]


async def test_a_database_that_fails_is_unavailable(database: Database) -> None:
    """The product's own faults arrive as the port's error, which the engine knows how to retry."""
    reads = HelpdeskDomain(database)
    async with database.writing() as db:
        await db.execute("DROP TABLE people")
    with pytest.raises(Unavailable):
        await reads.facts(Coordinates(W, "lea", table_ids=("billing",)), tail=20)
    nowhere = Database(ROOT / "no-such-folder" / "helpdesk.sqlite")
    with pytest.raises(Unavailable, match="unable to open"):
        await nowhere.prepare()
    with pytest.raises(Unavailable, match="unable to open"):
        await HelpdeskDomain(nowhere).facts(Coordinates(W, "lea"), tail=20)


async def test_facts_and_counts_are_of_one_state(desk: Desk) -> None:
    """A ticket that is opened between the two is not counted."""
    at = Coordinates(W, "lea", table_ids=("billing",))
    async with desk.house.domain.snapshot() as reads:
        scope = await visible(reads, at)
        await desk.helpdesk.open_ticket(W, "billing", "Meanwhile", by="gus")
        counts = await reads.counts(scope)
    assert counts.tables["billing"].value == 3
    assert await desk.seen("lea") == 4


async def test_the_tour_runs_by_hand(stack: LocalStack, redis_url: str, tmp_path: Path) -> None:
    """As its README shows it."""
    env = stack.env() | {"CONTEXT_REDIS_URL": redis_url, "CONTEXT_LIVENESS": "assumed"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "examples.own_product",
        env={**os.environ, **env, "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
        cwd=tmp_path,
    )  # fmt: skip
    async with asyncio.timeout(40):
        out, _ = await process.communicate()
    assert process.returncode == 0
    readme = (ROOT / "examples" / "own_product" / "README.md").read_text()
    assert f"```\n{out.decode()}```" in readme


# -- over the bus ------------------------------------------------------------------------------


def own_env(stack: LocalStack, redis_url: str) -> dict[str, str]:
    """Topics and groups of this test's own, and a database address that nobody must use."""
    name = f"t{secrets.token_hex(4)}"
    return stack.env() | {
        "CONTEXT_REDIS_URL": redis_url,
        "CONTEXT_DATABASE_URL": "postgresql+asyncpg://nobody@127.0.0.1:1/nothing",
        "CONTEXT_TOPIC_BUILD_REQUESTS": f"{name}.requests",
        "CONTEXT_TOPIC_READY": f"{name}.ready",
        "CONTEXT_TOPIC_EVICTIONS": f"{name}.evictions",
        "CONTEXT_TOPIC_DOMAIN_PREFIX": f"{name}.",
        "CONTEXT_BUILD_GROUP": f"{name}-build",
        "CONTEXT_INVALIDATION_GROUP": f"{name}-invalidation",
        "CONTEXT_HEARTBEATS": "consumer",
    }


@asynccontextmanager
async def own_worker(env: dict[str, str], file: Path, log: Path) -> AsyncIterator[None]:
    """`python -m examples.own_product worker` as a process, ready."""
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "examples.own_product", "worker", "--database", str(file),
            env={**os.environ, **env, "PYTHONPATH": str(ROOT)},
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        async with asyncio.timeout(40):
            line = await process.stdout.readline()
        assert line == b"build ready\n", f"see {log}"
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(25):
            assert await process.wait() == 0, f"see {log}"


@asynccontextmanager
async def invalidating(settings: Settings) -> AsyncIterator[None]:
    stop, ready = asyncio.Event(), asyncio.Event()
    work = asyncio.create_task(invalidate.run(settings, ready=ready.set, stop=stop))
    try:
        async with asyncio.timeout(40):
            await ready.wait()
        yield
    finally:
        stop.set()
        assert await work == 0


@pytest.mark.timeout(120)
async def test_the_product_on_the_bus(
    database: Database, stack: LocalStack, redis_url: str, tmp_path: Path
) -> None:
    """Its worker answers, its changes take back, its agents are told: without PostgreSQL."""
    env = own_env(stack, redis_url)
    settings = settings_of(env)
    await ensure(settings.kafka_bootstrap, Topics.of(settings))
    where = ContextBuildInput(user_id="amir", workspace_id=W, table_ids=("billing",))
    async with (
        ContextClient(settings) as client,
        own_worker(env, tmp_path / "helpdesk.sqlite", tmp_path / "worker.log"),
        invalidating(settings),
        client.subscribe_evictions(W) as evictions,
    ):
        emitted: list[AnyChange] = []

        async def emit(change: AnyChange) -> object:
            emitted.append(change)
            return await client.emit(change)

        helpdesk = Helpdesk(database, emit)
        await furnish(helpdesk)
        await until_live(settings)
        # The first build of a company is not kept: nothing was marked before it.
        assert [(await client.request(where)).source for _ in range(2)] == ["build", "build"]
        async with asyncio.timeout(30):  # a heartbeat may be late
            while (await client.request(where)).source != "cache":
                pass
        held = (await client.request(where)).context
        await helpdesk.leave_queue(W, "billing", "amir")
        async with asyncio.timeout(30):
            async for evicted in evictions:
                if evicted.change_id == emitted[-1].change_id:
                    break
        assert set(evicted.tags) & set(held.tags)
        with pytest.raises(NotFound):
            await client.request(where)
