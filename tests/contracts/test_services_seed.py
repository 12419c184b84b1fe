"""The demo workspace in the database, and the command line over it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine
from typer.testing import CliRunner

from context_engine.adapters.sql.services import DomainServices
from context_engine.errors import Conflict, NotFound
from tests.support.services import RecordingMarker
from workers.cli.domain import app
from workers.seed import Seeded, seed, shape


@pytest.fixture
async def seeded(database: AsyncEngine) -> tuple[DomainServices, Seeded]:
    services = DomainServices(database, RecordingMarker(database), ids_as_given=True)
    return services, await seed(services)


async def test_people_see_what_their_rights_say(seeded: tuple[DomainServices, Seeded]) -> None:
    """Admin and editor all, the viewer her own tasks, Dan by his team, Eva no incidents."""
    services, ids = seeded

    async def tasks(who: str) -> list[str]:
        found = await services.records.list(who, ids.workspace_id, "tbl-tasks", limit=1000)
        return [one.id for one in found]

    assert ids.created
    assert len(await tasks(ids.admin_id)) == len(await tasks(ids.editor_id)) == 700
    own = await services.records.list(ids.viewer_id, ids.workspace_id, "tbl-tasks", limit=1000)
    assert 50 < len(own) < 300
    assert {one.cells["fld-task-assignee"] for one in own} == {ids.viewer_id}
    tables = {
        one.id: one.permission
        for one in await services.tables.list(ids.deferring_id, "ws-delivery")
    }
    assert tables == dict.fromkeys(ids.table_ids, "editor")
    barred = await services.tables.list(ids.barred_id, ids.workspace_id)
    assert {one.id for one in barred} == set(ids.table_ids) - {"tbl-incidents"}
    with pytest.raises(NotFound):
        await services.tables.list(ids.outsider_id, ids.workspace_id)
    await services.members.remove(ids.admin_id, ids.workspace_id, ids.leaving_id)


async def test_seeding_again_changes_nothing(seeded: tuple[DomainServices, Seeded]) -> None:
    """It says that the workspace is there; a half-made one is an error, not taken for whole."""
    services, ids = seeded
    again = await seed(services)
    assert not again.created
    assert again.table_ids == ids.table_ids
    await services.workspaces.delete(shape.GUS.id, shape.SECOND)
    with pytest.raises(Conflict):
        await seed(services)


@pytest.fixture
def cli(database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("CONTEXT_DATABASE_URL", database_url)
    monkeypatch.setenv("CONTEXT_REDIS_URL", redis_url)
    monkeypatch.setenv("CONTEXT_TAG_SECRET", "a secret of the tests only")
    return CliRunner()


def test_the_domain_is_played_by_hand(cli: CliRunner) -> None:
    """Seed, look, write, refuse: each command gives its token and its change as JSON."""

    def ask(*words: str) -> object:
        done = cli.invoke(app, [*words, "--json"], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    def write(*words: str) -> dict[str, object]:
        answers = ask(*words)
        assert isinstance(answers, list)
        (answer,) = answers
        assert isinstance(answer, dict)
        assert answer["marked"] is True
        return answer

    assert ask("seed")
    update = ("record", "update", "rec-tasks-0001", "--table", "tbl-tasks")
    assert write(*update, "--set", "fld-task-assignee=usr-chloe")["version"] == 2
    listed = ask("record", "list", "--table", "tbl-tasks", "--actor", "usr-chloe")
    assert isinstance(listed, list)
    assert listed[0]["id"] == "rec-tasks-0001"
    barred = write("grant", "set", "--user", "usr-chloe", "--table", "tbl-tasks", "--role", "none")
    assert [change["type"] for change in barred["changes"]] == ["grant.changed"]  # type: ignore[attr-defined]
    refused = cli.invoke(app, ["record", "list", "--table", "tbl-tasks", "--actor", "usr-chloe"])
    assert refused.exit_code == 65
    write("grant", "remove", "--user", "usr-chloe", "--table", "tbl-tasks")
    write("message", "add", "cnv-launch", "Is 2.3 frozen?")
    write("member", "add", "usr-gus", "--role", "viewer")
    write("member", "set", "usr-gus", "--role", "editor")
    write("member", "remove", "usr-gus")


def test_ids_are_found_and_told_by_hand(cli: CliRunner) -> None:
    """Tables with fields and choices, users, conversations, policies; each as its actor sees it.

    Names on output are camelCase, a write is one line, and a mistaken id is told the right one.
    """

    def ask(*words: str) -> Any:
        done = cli.invoke(app, [*words, "--json"], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    assert ask("seed")["workspaceId"] == "ws-delivery"
    shown = ask("table", "show", "tbl-tasks", "--actor", "usr-chloe")
    status = {"id": "fld-task-status", "name": "Status", "type": "select"}
    assert {**status, "options": {"choices": [*shape.STATUS]}} in shown["fields"]
    (board,) = (one for one in shown["views"] if one["id"] == "viw-tasks-board")
    told = {"id": "viw-tasks-board", "name": "Board", "type": "kanban"}
    assert board == {
        **told,
        "ownership": "collaborative",
        "fieldIds": board["fieldIds"],
        "filtered": False,
        "filter": None,
    }
    assert set(board["fieldIds"]) <= {one["id"] for one in shown["fields"]}
    hidden = cli.invoke(app, ["table", "show", "tbl-incidents", "--actor", "usr-eva"])
    assert hidden.exit_code == 65
    assert "usr-chloe" in [one["userId"] for one in ask("user", "list", "--actor", "usr-eva")]
    assert cli.invoke(app, ["user", "list", "--actor", "usr-gus"]).exit_code == 65
    assert [one["id"] for one in ask("conversation", "list")] == ["cnv-launch"]
    assert ask("conversation", "list", "--actor", "usr-finn") == []

    found = cli.invoke(app, ["policy", "get", "--table", "tbl-tasks"], catch_exceptions=False)
    assert json.loads(found.stdout)["policies"][0]["mode"] == "restrictive"
    back = ["policy", "set", "--table", "tbl-tasks", "-"]
    assert cli.invoke(app, back, input=found.stdout, catch_exceptions=False).exit_code == 0
    again = cli.invoke(app, ["policy", "get", "--table", "tbl-tasks"], catch_exceptions=False)
    assert again.stdout == found.stdout
    refused = cli.invoke(app, ["policy", "get", "--table", "tbl-tasks", "--actor", "usr-ben"])
    assert refused.exit_code == 65

    update = ("record", "update", "rec-tasks-0001", "--table", "tbl-tasks", "--set")
    wrong = cli.invoke(app, [*update, "fld-task-asignee=usr-chloe"])
    assert 'did you mean "fld-task-assignee"' in wrong.stderr
    wrong = cli.invoke(app, [*update, "fld-task-status=Doing"])
    assert 'there are "Backlog"' in wrong.stderr
    said = cli.invoke(app, [*update, "fld-task-status=Done"], catch_exceptions=False)
    assert re.fullmatch(r"updated record rec-tasks-0001: version 2, marked.*\n", said.stdout)
    (written,) = ask(*update, "fld-task-status=Review")
    assert set(written["tokens"][0]) == {"workspaceId", "epoch", "reign", "clock"}
    (record,) = ask("record", "list", "--table", "tbl-tasks", "--limit", "1")
    assert set(record) == {"id", "version", "cells", "createdBy"}
    gone = cli.invoke(app, ["grant", "remove", "--user", "usr-ben", "--table", "tbl-tasks"])
    assert "user:usr-ben on table:tbl-tasks" in gone.stderr


def test_a_write_without_the_cache_says_what_follows(
    cli: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is done, and who repeats the mark; not an error."""
    cli.invoke(app, ["seed"], catch_exceptions=False)
    monkeypatch.setenv("CONTEXT_REDIS_URL", "redis://127.0.0.1:1/0")
    add = ["message", "add", "cnv-launch", "Is 2.3 frozen?"]
    done = cli.invoke(app, add, catch_exceptions=False)
    assert done.exit_code == 0
    assert "NOT MARKED" in done.stdout
    assert "The relay repeats it" in " ".join(done.stderr.split())
