"""The command line without a stack: what it says of mistakes, and how soon it says anything."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer

from context_engine.changes import (
    AnyChange,
    GrantChanged,
    GrantScope,
    RecordsChanged,
    Subject,
    change_types,
)
from context_engine.errors import (
    ContextEngineError,
    InvalidRequest,
    NotFound,
    NotYetEnforced,
    Unavailable,
)
from context_engine.nearest import CHARS, MOST, among, nearest
from context_engine.settings import DEV_ENV
from workers.cli import program
from workers.cli.domain.policies import policy_set
from workers.cli.main import app, main
from workers.cli.shared import leave
from workers.cli.watch import _line
from workers.seed.shape import OWN_TASKS

Run = Callable[..., int]
HEAVY = ("sqlalchemy", "redis", "alembic", "aiokafka", "faust", "asyncpg")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs a command in this process, in an empty folder without settings; its exit code."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CONTEXT_TAG_SECRET", raising=False)

    def command(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["context-engine", *words])
        with pytest.raises(SystemExit) as left:
            main()
        assert isinstance(left.value.code, int | None)
        return left.value.code or 0

    return command


def commands(group: typer.Typer = app) -> Iterator[typer.models.CommandInfo]:
    yield from group.registered_commands
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from commands(inner.typer_instance)


# -- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "name"),
    [
        (("build", "--json"), 2, "usage"),
        (("build", "--user", "u", "--workspace", "w", "--timeout", "-1", "--json"), 2, "usage"),
        (("no-such", "--json"), 2, "usage"),
        (("topics", "--json"), 78, "settings"),
        (("domain", "table", "show", "t", "--json"), 78, "settings"),
        (("domain", "grant", "set", "--role", "viewer", "--json"), 2, "usage"),
        (("emit", "{}", "--json"), 65, "invalid_request"),
    ],
)
def test_an_error_is_json_for_who_asked_for_json(
    run: Run, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, name: str
) -> None:
    """On stdout, whole and alone; the line for people stays on stderr."""
    assert run(*words) == code
    said = capsys.readouterr()
    error = json.loads(said.out)
    assert set(error) == {"code", "field", "message", "retryable"}
    assert error["code"] == name
    assert said.err


def test_without_json_an_error_is_for_people_alone(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("topics") == 78
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code", "field"),
    [
        (NotFound("table", "t"), 65, None),
        (InvalidRequest("wrong", field="cells.f"), 65, "cells.f"),
        (Unavailable("broker", "gone"), 69, None),
    ],
)
def test_json_errors_say_field_and_whether_to_try_again(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: ContextEngineError,
    code: int,
    field: str | None,
) -> None:
    monkeypatch.setattr(sys, "argv", ["context-engine", "build", "--json"])
    with pytest.raises(typer.Exit) as left:
        leave(error)
    assert left.value.exit_code == code
    told = json.loads(capsys.readouterr().out)
    assert (told["field"], told["retryable"]) == (field, error.retryable)


def test_hints_fit_the_folder_and_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody who runs dev is told to start it; a setting that hides its addresses is named."""
    monkeypatch.chdir(tmp_path)

    def told(error: ContextEngineError) -> str:
        with pytest.raises(typer.Exit):
            leave(error)
        return capsys.readouterr().err

    away = Unavailable("broker", "gone")
    assert str(tmp_path / DEV_ENV) in told(away)
    DEV_ENV.parent.mkdir()
    DEV_ENV.write_text("CONTEXT_KAFKA_BOOTSTRAP=127.0.0.1:1\n")
    assert " dev" not in told(away)
    monkeypatch.setenv("CONTEXT_KAFKA_BOOTSTRAP", "127.0.0.1:9")
    assert "CONTEXT_KAFKA_BOOTSTRAP of the environment wins" in told(away)
    for other in (NotYetEnforced("cache", "later"), Unavailable("reply", "none came")):
        assert len(told(other).splitlines()) == 1


def test_a_setting_with_a_typo_is_told_with_the_one_that_was_meant(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the environment; what belongs to the tests is none."""
    monkeypatch.setenv("CONTEXT_CACHE_TLL_SECONDS", "30")
    monkeypatch.setenv("CONTEXT_TEST_KAFKA", "maven")
    run("topics")
    told = capsys.readouterr().err
    assert "CONTEXT_CACHE_TLL_SECONDS is ignored" in told
    assert "did you mean CONTEXT_CACHE_TTL_SECONDS?" in told
    assert "CONTEXT_TEST_KAFKA" not in told


def test_a_change_with_a_typo_in_its_type_is_told_the_right_one(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("emit", '{"type": "membr.changed", "workspaceId": "w"}') == 65
    assert 'type: no such change: did you mean "member.changed"?' in capsys.readouterr().err
    assert "member.changed" in change_types()


def test_a_users_grant_without_a_table_is_told_the_command_that_it_takes(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the words of the command line, not of the service."""
    assert run("domain", "grant", "set", "--user", "u", "--role", "viewer") == 2
    told = capsys.readouterr().err
    assert "--table" in told
    assert "domain member set u --role" in told


# -- what it says of itself ----------------------------------------------------------------------


def test_its_version(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out.startswith("context-engine ")


def test_help_says_the_exit_codes(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """The ones that the documentation lists."""
    assert run("--help") == 0
    told = " ".join(capsys.readouterr().out.split())
    text = (Path(__file__).parents[2] / "docs" / "errors.md").read_text().split("## Exit codes")[1]
    codes = [line.split("`")[1] for line in text.splitlines() if line.startswith("| `")]
    assert len(codes) == 10
    assert all(f" {code} " in told for code in codes)


def test_every_option_says_what_it_is_for(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Each option and argument of each command has a help text, each command an example."""
    group = typer.main.get_command(app)
    found = list(commands())
    assert len(found) > 25
    for info in found:
        assert info.callback is not None
        assert "Example: " in (info.callback.__doc__ or ""), info.callback

    def walk(command: object) -> Iterator[object]:
        for inner in getattr(command, "commands", {}).values():
            yield from walk(inner)
        yield from getattr(command, "params", ())

    for param in walk(group):
        assert getattr(param, "help", None), param


def test_the_example_of_a_policy_is_the_demos_own() -> None:
    """Who tries it in the demo destroys nothing."""
    (example,) = re.findall(r"echo '(.*?)'", policy_set.__doc__ or "", re.DOTALL)
    assert json.loads(example) == OWN_TASKS


def test_commands_can_be_typed_as_they_are_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By name where the shell finds this program by it, else by the path that leads to it."""
    script = tmp_path / "venv" / "bin" / "context-engine"
    script.parent.mkdir(parents=True)
    script.write_text("")
    script.chmod(0o700)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program.typed("`context-engine topics`") == "`venv/bin/context-engine topics`"
    monkeypatch.setenv("PATH", str(script.parent))
    assert program.typed("`context-engine topics`") == "`context-engine topics`"
    assert program.typed("context-engine/client") == "context-engine/client"


def test_help_comes_without_the_heavy_libraries() -> None:
    """They take seconds to import on a busy machine; each command imports what it needs."""
    code = f"import sys, workers.cli.main; print([n for n in {HEAVY!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(
    ("worker", "unused"),
    [
        ("invalidate", ("sqlalchemy", "aiohttp", "context_engine.access", "context_engine.engine")),
        ("relay", ("aiohttp", "context_engine.access", "context_engine.engine")),
    ],
)
def test_a_worker_that_proves_starts_without_what_it_does_not_need(
    worker: str, unused: tuple[str, ...]
) -> None:
    """While it starts caches are bypassed, and its start is mostly imports."""
    code = f"import sys, workers.{worker}; print([n for n in {unused!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert done.stdout.strip() == "[]", done.stderr


# -- lines of watch ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            GrantChanged(
                workspace_id="w",
                subject=Subject(type="team", id="x"),
                scope=GrantScope(type="table", id="t"),
                op="created",
            ),
            ["subject=team:x", "scope=table:t", "op=created"],
        ),
        (
            RecordsChanged(
                workspace_id="w",
                table_id="t",
                op="deleted",
                record_ids=tuple(f"r{n}" for n in range(9)),
            ),
            ["tableId=t", "recordIds=r0,r1,r2,r3,r4,…(9)", "op=deleted"],
        ),
    ],
)
def test_a_change_is_shown_in_words(change: AnyChange, words: list[str]) -> None:
    """No value of Python's; of many ids the first, and how many there are."""
    line = _line(change).plain
    assert all(word in line.split() for word in words)
    assert not set(line) & set("{}'[]")


# -- the nearest name ----------------------------------------------------------------------------


def test_the_names_there_are_come_bounded_and_quoted() -> None:
    """Users choose them: a long one, or one with control characters, stays on its line."""
    assert nearest("asignee", ["assignee", "title"]) == "assignee"
    assert nearest("zzz", ["assignee", "title"]) is None
    assert among("x", []) == "there are none"
    told = among("x", ["a\nb" + "c" * 500, *(f"n{i}" for i in range(200))])
    assert "\n" not in told
    assert len(told) < (MOST + 2) * (CHARS + 4)
    assert told.endswith("and 181 more")
