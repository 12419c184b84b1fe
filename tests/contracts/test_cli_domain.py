"""The domain commands over the demo workspace: lists, and writes that tell what they replaced."""

from __future__ import annotations

import json

import pytest

from tests.support.commands import Cli

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


def test_what_hides_a_personal_view_is_listed(cli: Cli) -> None:
    """To every ADMIN, who may take it back: also where the view is another's."""
    hidden = ("--user", "usr-chloe", "--view", "viw-tasks-ana")
    assert cli("grant", "set", *hidden, "--role", "none").exit_code == 0
    cli("grant", "set", "--user", "usr-chloe", "--table", "tbl-tasks", "--role", "viewer")
    cli("member", "set", "usr-finn", "--role", "admin")
    for admin in ("usr-finn", "usr-ana"):
        seen = cli.json("grant", "list", "--table", "tbl-tasks", "--actor", admin)
        assert [one["scopeId"] for one in seen] == ["tbl-tasks", "viw-tasks-ana"]


def test_a_write_tells_no_more_of_its_changes_than_what_they_are(cli: Cli) -> None:
    """A change may name what its actor does not see, such as a member's private projects."""
    (told,) = cli.json("member", "remove", "usr-finn")
    for change in told["changes"]:
        assert set(change) <= {"changeId", "workspaceId", "type", "op"}


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
    told = 'viw-serious  "Serious"  grid  restricted  6 of 7 fields  filter '
    assert views[-1].startswith(told)
    assert json.loads(views[-1].removeprefix(told)) == pred
    cli("grant", "set", "--user", "usr-eva", "--view", "viw-serious", "--role", "viewer")
    eva = ("view", "list", "--table", "tbl-incidents", "--actor", "usr-eva")
    (seen,) = cli.json(*eva)
    assert (seen["id"], seen["filtered"], seen["filter"]) == ("viw-serious", True, None)
    assert cli.lines(*eva) == ['viw-serious  "Serious"  grid  restricted  6 of 6 fields  filtered']
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
    assert [type(one) for one in told["afterTokens"]] == [str], "for `build --after`"

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
