"""The domain commands over the demo workspace: lists, writes, and faults in the caller's words."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import typer
from sqlalchemy.ext.asyncio import AsyncEngine
from typer.testing import CliRunner, Result

from context_engine.adapters.sql.services import DomainServices
from tests.support.services import RecordingMarker
from workers.cli.domain import app
from workers.cli.options import named
from workers.seed import seed

HALF = "\ud800"
"""Half a character, which no service stores: it is told which argument held it."""


@dataclass
class Cli:
    """Runs `domain …` words in this process."""

    patch: pytest.MonkeyPatch

    def __call__(self, *words: str, input: str | None = None) -> Result:
        self.patch.setattr(sys, "argv", ["context-engine", "domain", *words])
        return CliRunner().invoke(app, words, input=input, catch_exceptions=False)

    def json(self, *words: str, input: str | None = None) -> Any:
        done = self(*words, "--json", input=input)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    def lines(self, *words: str) -> list[str]:
        done = self(*words)
        assert done.exit_code == 0, done.output
        return done.stdout.splitlines()


@pytest.fixture
async def cli(
    database: AsyncEngine, database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> Cli:
    """Over the demo workspace."""
    await seed(DomainServices(database, RecordingMarker(database)))
    monkeypatch.setenv("CONTEXT_DATABASE_URL", database_url)
    monkeypatch.setenv("CONTEXT_REDIS_URL", redis_url)
    monkeypatch.setenv("CONTEXT_TAG_SECRET", "a secret of the tests only")
    return Cli(monkeypatch)


# Commands run a loop of their own, so these tests are not async.


def test_grants_are_listed(cli: Cli) -> None:
    """All of the workspace, of a table with its views, of a view; to ADMINs alone."""
    of_team = "workspace ws-delivery  team team-delivery  editor  v1"
    barred = "table tbl-incidents  user usr-eva  none  v1"
    assert cli.lines("grant", "list") == [barred, of_team]
    view = ("--view", "viw-tasks-escalated")
    cli("grant", "set", "--user", "usr-ben", *view, "--role", "viewer")
    on_view = "view viw-tasks-escalated  user usr-ben  viewer  v1"
    assert cli.lines("grant", "list") == [barred, on_view, of_team]
    assert cli.lines("grant", "list", "--table", "tbl-tasks") == [on_view]
    assert cli.lines("grant", "list", *view) == [on_view]
    (one,) = cli.json("grant", "list", *view)
    assert one == {
        "scopeType": "view", "scopeId": "viw-tasks-escalated", "subjectType": "user",
        "subjectId": "usr-ben", "role": "viewer", "version": 1,
    }  # fmt: skip
    for refused in (("--actor", "usr-ben"), ("--table", "nowhere"), ("--view", "nowhere")):
        assert cli("grant", "list", *refused).exit_code == 65


def test_an_admin_of_a_table_lists_its_grants_alone(cli: Cli) -> None:
    cli("grant", "set", "--user", "usr-ben", "--table", "tbl-tasks", "--role", "admin")
    mine = ("--actor", "usr-ben")
    assert len(cli.json("grant", "list", "--table", "tbl-tasks", *mine)) == 1
    assert cli("grant", "list", *mine).exit_code == 65
    assert cli("grant", "list", "--table", "tbl-incidents", *mine).exit_code == 65


def test_what_nobody_can_set_is_not_listed(cli: Cli) -> None:
    """Grants on a trashed table, on a personal view of another."""
    hidden = ("--user", "usr-chloe", "--view", "viw-tasks-ana")
    assert cli("grant", "set", *hidden, "--role", "none").exit_code == 0
    cli("grant", "set", "--user", "usr-chloe", "--table", "tbl-tasks", "--role", "viewer")
    cli("member", "set", "usr-finn", "--role", "admin")
    seen = cli.json("grant", "list", "--table", "tbl-tasks", "--actor", "usr-finn")
    assert [one["scopeId"] for one in seen] == ["tbl-tasks"]
    assert len(cli.json("grant", "list", "--table", "tbl-tasks")) == 2


def test_teams_are_listed(cli: Cli) -> None:
    """Each to its members, all to ADMINs, and who is in them."""
    both = cli.json("team", "list")
    assert [one["id"] for one in both] == ["team-delivery", "team-support"]
    assert both[0] == {
        "id": "team-delivery", "name": "Delivery", "memberIds": ["usr-ben", "usr-dan"],
    }  # fmt: skip
    assert cli.lines("team", "list", "--actor", "usr-dan") == [
        'team-delivery  "Delivery"  usr-ben, usr-dan'
    ]
    assert cli("team", "create", "Night", "--id", "team-night").exit_code == 0
    assert cli.lines("team", "list")[1] == 'team-night  "Night"  nobody'
    assert cli("team", "add", "team-night", "usr-finn").exit_code == 0
    assert cli.lines("team", "list", "--actor", "usr-finn") == ['team-night  "Night"  usr-finn']
    assert cli("team", "remove", "team-night", "usr-finn").exit_code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("team", "list", "--actor", "usr-finn"),
        ("conversation", "list", "--actor", "usr-finn"),
        ("grant", "list", "--table", "tbl-clients"),
        ("field-permission", "list", "--table", "tbl-tasks"),
        ("record", "list", "--table", "tbl-clients", "--after", "rec-clients-9999"),
    ],
)
def test_an_empty_list_says_so(cli: Cli, words: tuple[str, ...]) -> None:
    """On stderr, so that a pipe gets nothing; `[]` for programs."""
    done = cli(*words)
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.startswith("no ")
    assert cli.json(*words) == []


def test_fields_and_views_are_listed_and_made(cli: Cli) -> None:
    """As `table show` has them; a view is made with its boundary, and deleted."""
    shown = cli.json("table", "show", "tbl-incidents")
    assert cli.json("field", "list", "--table", "tbl-incidents") == shown["fields"]
    assert cli.json("view", "list", "--table", "tbl-incidents") == shown["views"]
    pred = {"cmp": {"ref": "field:fld-incident-severity", "op": "eq", "operand": {"literal": "S1"}}}
    made = ("view", "create", "Serious", "--table", "tbl-incidents", "--id", "viw-serious")
    more = ("--ownership", "restricted", "--filter", json.dumps(pred))
    assert cli(*made, *more, "--hide", "fld-incident-reporter").stdout.startswith(
        "created view viw-serious: version 1, "
    )
    views = cli.lines("view", "list", "--table", "tbl-incidents")
    assert views[-1] == 'viw-serious  "Serious"  grid  restricted'
    cli("grant", "set", "--user", "usr-eva", "--view", "viw-serious", "--role", "viewer")
    (seen,) = cli.json("view", "list", "--table", "tbl-incidents", "--actor", "usr-eva")
    assert seen["id"] == "viw-serious"
    fields = cli.json("field", "list", "--table", "tbl-incidents", "--actor", "usr-eva")
    assert "fld-incident-reporter" not in [one["id"] for one in fields]
    assert cli("view", "delete", "viw-serious", "--table", "tbl-incidents").exit_code == 0


def test_writes_tell_what_they_replaced(cli: Cli) -> None:
    """Grants, members, field permissions and policies; for people and for programs."""
    on = ("--user", "usr-ben", "--table", "tbl-tasks")
    (line,) = cli.lines("grant", "set", *on, "--role", "viewer")
    assert line.startswith("created grant to user usr-ben on table tbl-tasks, role nothing -> view")
    (line,) = cli.lines("grant", "set", *on, "--role", "none")
    assert ", role viewer -> none: version 2, " in line
    (told,) = cli.json("grant", "remove", *on)
    assert (told["did"], told["before"], told["after"]) == ("deleted", {"role": "none"}, None)

    (line,) = cli.lines("member", "set", "usr-ben", "--role", "viewer")
    assert line.startswith("updated member usr-ben, role editor -> viewer: version 2, ")
    due = ("field-permission", "set", "fld-task-due", "--table", "tbl-tasks", "--role", "viewer")
    cli(*due, "--level", "none")
    (line,) = cli.lines(*due, "--level", "read")
    assert "permission of role viewer on field fld-task-due, level none -> read: " in line

    nothing = json.dumps({"default": "deny_all", "policies": []})
    done = cli("policy", "set", "--table", "tbl-tasks", "-", input=nothing)
    assert "tbl-tasks, default show_all -> deny_all, policies 1 -> 0: version " in done.stdout
    (told,) = cli.json("policy", "set", "--table", "tbl-tasks", "-", input=nothing)
    assert told["before"] == told["after"] == {"default": "deny_all", "policies": 0}


def test_the_version_that_a_write_expects_is_shown(cli: Cli) -> None:
    """By the list of the things, by `policy get`: with it a write is done, with another refused."""
    got = cli("policy", "get", "--table", "tbl-tasks")
    as_json = cli.json("policy", "get", "--table", "tbl-tasks")
    assert got.stderr.startswith(f"version {as_json['version']},")
    assert json.loads(got.stdout) == {name: as_json[name] for name in ("default", "policies")}
    put = ("policy", "set", "--table", "tbl-tasks", "-", "--expect")
    for given in (got.stdout, json.dumps(as_json)):
        version = str(cli.json("policy", "get", "--table", "tbl-tasks")["version"])
        assert cli(*put, version, input=given).exit_code == 0
        assert cli(*put, version, input=given).exit_code == 65

    ben = next(one for one in cli.json("member", "list") if one["userId"] == "usr-ben")
    role = ("member", "set", "usr-ben", "--role", "viewer", "--expect")
    assert cli(*role, str(ben["version"])).exit_code == 0
    assert cli(*role, str(ben["version"])).exit_code == 65
    (grant,) = cli.json("grant", "list", "--table", "tbl-incidents")
    again = ("grant", "set", "--user", "usr-eva", "--table", "tbl-incidents", "--role", "viewer")
    assert cli(*again, "--expect", str(grant["version"])).exit_code == 0
    assert cli(*again, "--expect", str(grant["version"])).exit_code == 65


def test_policies_are_read_in_the_order_they_were_written_in(cli: Cli) -> None:
    """So that the first of `policy get` is the one that `explain` calls the first."""
    every = [
        {
            "subjects": [{"type": "user", "id": user}],
            "mode": "restrictive",
            "pred": {"cmp": {"ref": "field:fld-task-estimate", "op": "gt",
                             "operand": {"literal": n}}},
        }
        for n, user in enumerate(("usr-ben", "usr-eva", "usr-dan", "usr-finn") * 3)
    ]  # fmt: skip
    given = json.dumps({"default": "show_all", "policies": every})
    assert cli("policy", "set", "--table", "tbl-tasks", "-", input=given).exit_code == 0
    found = cli.json("policy", "get", "--table", "tbl-tasks")["policies"]
    assert [one["pred"] for one in found] == [one["pred"] for one in every]


# -- faults in the words of who typed ------------------------------------------------------------

GOOD = {
    "actor": "usr-ana", "workspace": "ws-delivery", "table_id": "tbl-tasks",
    "user": "usr-ben", "role": "viewer", "level": "read", "field_id": "fld-task-due",
    "record_id": "rec-tasks-0001", "record_ids": "rec-tasks-0001", "conversation": "cnv-launch",
    "content": "text", "team_id": "team-support", "name": "Name", "view_id": "viw-tasks-board",
    "cells": "fld-task-title=x", "file": "-",
}  # fmt: skip
OF_ITS_OWN = {"as_json", "help", "expect", "limit", "level", "ownership", "file", "filter"}
"""What is no text, or is looked at by the command itself."""
BESIDE = {
    ("grant", "set"): ("--user", "usr-ben", "--table", "tbl-tasks"),
    ("grant", "remove"): ("--user", "usr-ben", "--table", "tbl-tasks"),
    ("field-permission", "set"): ("--role", "viewer"),
    ("field-permission", "remove"): ("--role", "viewer"),
}
"""Of options of which one must be given: one that goes with those that are required."""
CHOICES = {("member", "add"), ("member", "set"), ("grant", "set"), ("message", "add")}
"""Commands whose `--role` is one of a few words."""


def every_text() -> Iterator[tuple[tuple[str, str], Any, list[str]]]:
    """Each option and argument that takes any text, in a command line that is right but for it."""
    for group, inside in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        for word, command in getattr(inside, "commands", {}).items():
            for one in command.params:
                if one.name in OF_ITS_OWN or (one.name == "role" and (group, word) in CHOICES):
                    continue
                yield (group, word), one, [group, word, *_words((group, word), command, one)]


def _words(at: tuple[str, str], command: Any, wrong: Any) -> Iterator[str]:
    beside = list(BESIDE.get(at, ()))
    if wrong.name in ("user", "team", "role") and not wrong.required:
        beside = beside[2:]
    elif wrong.name == "view_id" and not wrong.required:
        beside = beside[:2]
    if wrong.opts[0] in beside:
        place = beside.index(wrong.opts[0])
        beside[place : place + 2] = []
    for one in command.params:
        if one is wrong or one.required:
            value = GOOD[one.name] if one is not wrong else HALF
            if one is wrong and one.name == "cells":
                value = f"fld-task-title={HALF}"
            yield from ([value] if one.param_type_name == "argument" else [one.opts[0], value])
    yield from beside


TEXTS = list(every_text())


def test_a_fault_is_told_by_the_option_that_it_was_typed_in(cli: Cli) -> None:
    """Each option and argument of each command, in one text that no service takes."""
    assert len(TEXTS) > 80
    for at, one, words in TEXTS:
        done = cli(*words, "--json", input=json.dumps({"default": "show_all", "policies": []}))
        assert done.exit_code == 65, (words, done.output)
        told = json.loads(done.stdout)
        assert told["code"] == "invalid_request", (words, told)
        place = named(one)
        assert told["field"].split(" ")[0] == place, (at, words, told)
        assert told["message"].startswith(place)
