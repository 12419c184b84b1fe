"""Loading into a database that is in use: all or nothing, replacing, freshness, the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncEngine
from typer.testing import CliRunner

from context_engine.adapters.baserow import read_workspace
from context_engine.adapters.memory import MemoryCache
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import DomainServices
from context_engine.engine import ContextEngine
from context_engine.errors import Conflict
from context_engine.models import ContextBuildInput
from tests.support import exported as x
from tests.support.exported import as_bytes, exported, tables
from tests.support.overlay import WALL
from tests.support.plain_baserow import NOW
from tests.support.services import RecordingMarker
from tests.support.shared_data import workspace_file
from tests.support.world import engine_over
from workers.cli.main import app

runner = CliRunner()
TABLES = (t.workspaces, t.tables, t.fields, t.views, t.records, t.links, t.outbox, t.users)


@pytest.fixture
def services(database: AsyncEngine) -> DomainServices:
    return DomainServices(
        database, RecordingMarker(database), enforce_seconds=0.3, ids_as_given=True
    )


async def load(services: DomainServices, document: Any, **more: Any) -> None:
    await services.imports.load("op", read_workspace(as_bytes(document)), admin_id="ana", **more)


async def contents(database: AsyncEngine) -> dict[str, list[Any]]:
    async with database.connect() as connection:
        return {
            table.name: sorted(map(tuple, (await connection.execute(select(table))).all()), key=str)
            for table in TABLES
        }


# -- all or nothing ----------------------------------------------------------------------------


async def test_a_load_that_fails_at_its_end_leaves_nothing(
    services: DomainServices, database: AsyncEngine
) -> None:
    """The last link refers to nothing, which the database finds when all else is written."""
    before = await contents(database)
    made = read_workspace(as_bytes(exported()))
    broken = [*made.links[:-1], made.links[-1]._replace(to_record_id="nobody")]
    object.__setattr__(made, "links", broken)
    with pytest.raises(Conflict):
        await services.imports.load("op", made, admin_id="ana")
    assert await contents(database) == before


async def test_a_workspace_that_is_there_is_not_overwritten_unasked(
    services: DomainServices, database: AsyncEngine
) -> None:
    await load(services, exported())
    before = await contents(database)
    with pytest.raises(Conflict, match="--replace"):
        await load(services, exported(rows=9))
    other = {**exported(), "name": "SMALL"}
    with pytest.raises(Conflict, match="called 'Small'"):
        await load(services, other, replace=True)
    assert await contents(database) == before


async def test_ids_of_another_workspace_are_not_taken_over(
    services: DomainServices, database: AsyncEngine
) -> None:
    await services.users.create("op", name="Ana", id="ana")
    await services.workspaces.create("op", name="Other", maker_id="ana", id="other")
    await services.tables.create("ana", "other", name="Mine", id=f"small-t{x.TASKS}")
    before = await contents(database)
    with pytest.raises(Conflict, match="another workspace"):
        await load(services, exported())
    assert await contents(database) == before


async def test_the_planner_knows_what_was_loaded(
    services: DomainServices, database: AsyncEngine
) -> None:
    """Counts over links of rows that no statistics tell of would run out of time."""
    made = read_workspace(as_bytes(exported(rows=500)))
    await services.imports.load("op", made, admin_id="ana")
    query = text("SELECT reltuples FROM pg_class WHERE relname = ANY(:names) ORDER BY relname")
    async with database.connect() as connection:
        found = (await connection.execute(query, {"names": ["records", "links"]})).scalars().all()
    assert found == [1000, 502]


# -- replacing ---------------------------------------------------------------------------------


async def test_replacing_keeps_people_rights_policies_and_tasks_of_what_is_there_again(
    services: DomainServices, database: AsyncEngine
) -> None:
    """A wall that fell with the rows behind it would open them; versions only rise."""
    await load(services, exported())
    w, walled = "small", f"small-t{x.TASKS}"
    await services.users.create("op", name="Vic", email="vic@x.example", id="vic")
    await services.members.add("ana", w, "vic", role="viewer")
    await services.policies.set("ana", w, walled, WALL)
    await services.grants.set(
        "ana", w, subject_type="user", subject_id="vic", scope_type="table",
        scope_id=f"small-t{x.PEOPLE}", role="none",
    )  # fmt: skip
    for row in (1, 4):
        await services.tasks.create(
            "ana", w, title=f"T{row}", table_id=walled, record_id=f"{walled}-r{row}", id=f"k{row}"
        )
    document = exported(rows=3)
    tables(document)[1]["fields"] = [f for f in tables(document)[1]["fields"] if f["id"] != x.DUE]
    tables(document)[0]["fields"].pop()
    await load(services, document, replace=True)
    assert len(await services.records.list("ana", w, walled)) == 3
    seen = await services.records.list("vic", w, walled)
    assert len(seen) == 3, "all are Vic's own: the file's address is known now"
    assert [one.id for one in await services.tables.list("vic", w)] == [walled]
    async with database.connect() as connection:
        assert (await connection.execute(select(t.tasks.c.id))).scalars().all() == ["k1"]
        assert (await connection.execute(select(t.row_policies.c.table_id))).scalars().all() == [
            walled
        ]
        fields = (await connection.execute(select(t.fields.c.id))).scalars().all()
        assert f"small-f{x.DUE}" not in fields
        query = select(t.tables.c.version).where(t.tables.c.id == walled)
        assert (await connection.execute(query)).scalar_one() == 3


async def test_replacing_with_the_same_file_gives_the_same_content(
    services: DomainServices, database: AsyncEngine
) -> None:
    await load(services, exported())
    first = await contents(database)
    await load(services, exported(), replace=True)
    again = await contents(database)
    assert first["records"] == again["records"]
    assert first["links"] == again["links"]
    assert len(first["fields"]) == len(again["fields"])


# -- freshness ---------------------------------------------------------------------------------


class House:
    """An engine over a cache that the services mark, at a time that the test sets."""

    def __init__(self, database: AsyncEngine) -> None:
        self.now_ms = int(NOW.timestamp() * 1000)
        self.cache = MemoryCache(now=lambda: self.now_ms)
        self.services = DomainServices(database, self.cache, ids_as_given=True)
        self.engine: ContextEngine = engine_over(database, self.cache)

    async def count(self, view: int, user: str = "ana") -> tuple[str, int | None]:
        """Where the answer came from, and the view's count."""
        asked = {"userId": user, "workspaceId": "small", "viewId": f"small-v{view}"}
        answer = await self.engine.build(ContextBuildInput.model_validate(asked))
        return answer.source, json.loads(answer.context)["view"]["recordCount"]["value"]


@pytest.fixture
def house(database: AsyncEngine) -> House:
    return House(database)


async def test_a_count_over_links_falls_with_every_change_that_it_depends_on(
    house: House,
) -> None:
    """The linked rows' cells, the links, rows that come and go, and whose sight they are in."""
    w, tasks = "small", f"small-t{x.TASKS}"
    hours, owner = f"small-f{x.HOURS}", f"small-f{x.OWNER}"
    await load(house.services, exported())  # Person 1 has 0 + 2 hours, Person 2 has 1 + 3
    s = house.services
    assert await house.count(12) == ("build", 1)
    assert await house.count(12) == ("cache", 1)
    await s.records.update("ana", w, tasks, f"{tasks}-r1", {hours: 5})
    assert await house.count(12) == ("build", 2)
    await s.links.set("ana", w, tasks, owner, f"{tasks}-r1", [])
    assert await house.count(12) == ("build", 1)
    await s.records.delete("ana", w, tasks, [f"{tasks}-r4"])
    assert await house.count(12) == ("build", 0)
    await s.records.restore("ana", w, tasks, [f"{tasks}-r4"])
    assert await house.count(12) == ("build", 1)
    await s.users.create("op", name="Vic", id="vic")
    await s.members.add("ana", w, "vic", role="viewer")
    assert await house.count(12, "vic") == ("build", 1)
    await s.policies.set("ana", w, tasks, WALL)
    assert await house.count(12, "vic") == ("build", 0)
    assert (await house.count(12))[1] == 1
    await s.grants.set(
        "ana", w, subject_type="user", subject_id="vic", scope_type="table", scope_id=tasks,
        role="none",
    )  # fmt: skip
    assert await house.count(12, "vic") == ("build", 0)
    await s.tables.trash("ana", w, tasks)
    assert await house.count(12) == ("build", 0)
    await s.tables.restore("ana", w, tasks)
    await s.fields.delete("ana", w, tasks, hours)
    assert await house.count(12) == ("build", None)


async def test_an_edit_that_the_filter_does_not_read_leaves_the_answer_alone(
    house: House,
) -> None:
    tasks = f"small-t{x.TASKS}"
    await load(house.services, exported())
    await house.count(12)
    assert (await house.count(12))[0] == "cache"
    await house.services.records.update(
        "ana", "small", tasks, f"{tasks}-r1", {f"small-f{x.TITLE}": "Other"}
    )
    assert (await house.count(12))[0] == "cache"


async def test_a_count_by_dates_does_not_outlive_the_day_in_its_zone(house: House) -> None:
    """At 22:30 UTC it is past midnight in Brussels; an hour and a half later it is in London."""
    document = exported(rows=28)
    tables(document)[1]["views"] = [
        x.view(31, x.TASKS, [x.filter_(x.DUE, "date_is_before", "UTC??today")]),
        x.view(32, x.TASKS, [x.filter_(x.DUE, "date_is_before", "Europe/Brussels??today")]),
    ]
    await load(house.services, document)
    assert await house.count(31) == ("build", 19)
    assert await house.count(32) == ("build", 20)
    house.now_ms += 85 * 60_000
    await house.count(31)  # long unused, its marks are gone: this build makes them anew
    assert await house.count(31) == ("build", 19)
    house.now_ms += 4 * 60_000
    assert await house.count(31) == ("cache", 19)
    house.now_ms += 2 * 60_000  # 00:01: less than the life of an entry, and another day
    assert await house.count(31) == ("build", 20)
    assert await house.count(32) == ("build", 20)


async def test_replacing_takes_back_what_was_told_of_the_workspace_before(house: House) -> None:
    await load(house.services, exported())
    assert await house.count(21) == ("build", 2)
    assert await house.count(21) == ("cache", 2)
    await load(house.services, exported(rows=9), replace=True)
    assert await house.count(21) == ("build", 6)


# -- the command -------------------------------------------------------------------------------


@pytest.fixture
def environment(
    database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Path:
    for name, value in (
        ("DATABASE_URL", database_url), ("REDIS_URL", redis_url), ("TAG_SECRET", "s" * 32),
        ("IMPORT_MAX_ROWS", "300"),
    ):  # fmt: skip
        monkeypatch.setenv(f"CONTEXT_{name}", value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_loads_shows_counts_and_says_what_it_could_not(environment: Path) -> None:
    file = workspace_file("supply-chain-procurement-management")
    first = runner.invoke(app, ["import", "baserow", str(file), "--json"])
    assert first.exit_code == 0, first.output
    told = json.loads(first.stdout)
    assert told["workspaceId"] == "supply-chain-procurement-management"
    assert told["counts"] == {"tables": 17, "fields": 137, "views": 73, "rows": 257, "links": 834}
    assert any(gap["field"] == "Status" or gap["what"] for gap in told["withoutCounterpart"])
    again = runner.invoke(app, ["import", "baserow", str(file)])
    assert again.exit_code == 65
    assert "--replace" in again.stderr
    replaced = runner.invoke(
        app, ["import", "baserow", str(file), "--replace"], env={"COLUMNS": "200"}
    )
    assert replaced.exit_code == 0
    for words in ("replaced", "137", "without a counterpart", "a formula", "build --user usr-ana"):
        assert words in replaced.stdout


def test_the_command_refuses_a_broken_file_with_its_place(environment: Path) -> None:
    file = environment / "broken.json"
    document = exported()
    tables(document)[1]["rows"][0][f"field_{x.OWNER}"] = [9]
    file.write_bytes(as_bytes(document))
    for args, words in (
        ([str(file)], f"export[0].tables[1].rows[0].field_{x.OWNER}"),
        (["missing.json"], "cannot be read"),
    ):
        done = runner.invoke(app, ["import", "baserow", *args], env={"COLUMNS": "200"})
        assert done.exit_code == 65
        assert words in done.stderr
    file.write_bytes(as_bytes(exported(rows=400)))
    done = runner.invoke(app, ["import", "baserow", str(file)], env={"COLUMNS": "200"})
    assert (done.exit_code, "CONTEXT_IMPORT_MAX_ROWS" in done.stderr) == (65, True)
