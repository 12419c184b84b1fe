"""The domain commands without a database: misuse, and how a write is told."""

from __future__ import annotations

import io
import json
import sys

import pytest

from context_engine.adapters.sql.services import Written
from context_engine.changes import GrantChanged, GrantScope, Op, Subject
from workers.cli.domain import written
from workers.cli.domain.written import Replaces, Stood
from workers.cli.main import main
from workers.cli.shared import Exit
from workers.cli.terminal import plural

GRANT = ("domain", "grant", "set", "--role")


@pytest.mark.parametrize(
    "words",
    [
        (*GRANT, "viewer"),
        (*GRANT, "viewer", "--user", "u", "--team", "t", "--table", "t"),
        (*GRANT, "viewer", "--user", "u", "--table", "t", "--view", "v"),
        (*GRANT, "viewer", "--user", "u", "--table", ""),
        (*GRANT, "owner", "--user", "u", "--table", "t"),
        ("domain", "grant", "list", "--table", "t", "--view", "v"),
        ("domain", "member", "set", "u", "--role", "boss"),
        ("domain", "field-permission", "set", "f", "--table", "t", "--level", "none"),
        ("domain", "field-permission", "set", "f", "--table", "t", "--role", "a", "--level", "x"),
        ("domain", "record", "create", "--table", "t", "--set", "no-value"),
        ("domain", "view", "create", "V", "--table", "t", "--filter", "{"),
        ("domain", "view", "create", "V", "--table", "t", "--ownership", "mine"),
        ("domain", "message", "add", "c", "text", "--role", "tool"),
        ("domain", "policy", "set", "--table", "t"),
        ("snapshot", "list", "--since", "yesterday"),
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_exits_with_2(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever finds it, the parser or the command; before anything is asked or connected to."""
    assert left(monkeypatch, *words, "--json") == Exit.USAGE
    assert json.loads(capsys.readouterr().out)["code"] == "usage"


def left(monkeypatch: pytest.MonkeyPatch, *words: str) -> int | str | None:
    """The exit code of a command, in this process."""
    monkeypatch.setattr(sys, "argv", ["context-engine", *words])
    with pytest.raises(SystemExit) as exit_:
        main()
    return exit_.value.code


def test_a_file_that_is_not_what_it_should_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line was right: 65, as for what the services refuse."""
    for text in ("no json", "{}"):
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        code = left(monkeypatch, "domain", "policy", "set", "--table", "t", "-")
        assert code == Exit.REJECTED


# -- what a write tells ------------------------------------------------------------------------


def wrote(op: Op, version: int) -> Written:
    change = GrantChanged(
        workspace_id="w",
        subject=Subject(type="user", id="u"),
        scope=GrantScope(type="table", id="t"),
        op=op,
    )
    return Written(id="t", version=version, tokens=(), changes=(change,))


@pytest.mark.parametrize(
    ("op", "version", "stood", "after", "told", "before"),
    [
        ("created", 1, None, "viewer", "role nothing -> viewer", [None]),
        ("updated", 4, 3, "viewer", "role editor -> viewer", [{"role": "editor"}]),
        ("deleted", 3, 3, None, "role editor -> nothing", [{"role": "editor"}]),
        ("updated", 5, 3, "viewer", "role what another wrote -> viewer", []),
        ("updated", 2, None, "viewer", "role what another wrote -> viewer", []),
        ("created", 1, 3, "viewer", "role what another wrote -> viewer", []),
    ],
)
def test_a_write_tells_what_it_replaced(
    op: Op, version: int, stood: int | None, after: str | None, told: str, before: list[object]
) -> None:
    """And does not say what it cannot know: where somebody wrote between reading and writing."""

    async def nothing(services: object) -> None:
        return None

    found = Stood({"role": "editor"}, stood) if stood is not None else None
    replaces = Replaces(nothing, {"role": after} if after is not None else None)
    one = wrote(op, version)
    assert written._change(one, found, replaces) == f", {told}"
    made = written._as_json(one, found, replaces)
    assert made["did"] == op
    assert [made["before"] for _ in ("before",) if "before" in made] == before
    assert made["after"] == replaces.after
    json.dumps(made)


def test_one_of_a_thing_is_one() -> None:
    assert plural(1, "view") == "1 view"
    assert plural(0, "view") == "0 views"
    assert plural(1_200, "entry", "entries") == "1,200 entries"
