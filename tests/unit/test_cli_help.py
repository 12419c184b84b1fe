"""Help and lines on a terminal of 80 columns, and in a pipe."""

from __future__ import annotations

import io
import re
import shlex
from inspect import getdoc
from pathlib import Path
from typing import Annotated

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from context_engine.changes import MemberChanged
from tests.unit.test_cli import Run, commands, run
from workers.cli import watch
from workers.cli.options import typed_place
from workers.cli.program import COLUMNS, help_text, wrapped
from workers.cli.terminal import people
from workers.demo.run import _print_line

__all__ = ["run"]

EXAMPLES = [
    " ".join(found[1].split())
    for info in commands()
    if (found := re.search(r"Example: (.*)", getdoc(info.callback) or "", re.DOTALL))
]


def as_a_shell_reads(text: str) -> list[str]:
    """Arguments; the white space in a quoted one is that of JSON, and so is no matter."""
    words = shlex.split(text.replace("\\\n", " "))
    return [" ".join(word.split()) for word in words]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_in_a_help_text_can_be_copied(example: str) -> None:
    """However narrow the terminal, a shell reads one command, the one that the page has."""
    shown = wrapped(example)
    assert as_a_shell_reads(shown) == as_a_shell_reads(example)
    assert all(len(line) <= COLUMNS + 2 for line in shown.splitlines())
    for line in shown.splitlines()[:-1]:
        assert line.endswith("\\") or "'" in shown.partition(line)[0] + line


def test_a_text_within_json_is_not_broken() -> None:
    """Its spaces count."""
    text = 'tool \'{"name": "a text of many words", "next": 1}\''
    assert wrapped(text, 20).splitlines() == [
        'tool \'{"name": "a text of many words",',
        '  "next": 1}\'',
    ]


def test_paragraphs_of_help_flow() -> None:
    """They are written for 100 columns, and read on 80."""
    assert help_text("One\ntwo.\n\nThree\nfour.\n\nExample: context-engine\ntopics") == (
        "One two.\n\nThree four.\n\nExample:\n\ncontext-engine topics"
    )


def test_a_command_in_help_is_put_as_typed_once(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where the shell does not find the program by its name, a path leads to it, in text too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(tmp_path / "bin" / "context-engine")])
    assert help_text("See `context-engine topics`.\n\nExample: context-engine dev") == (
        "See `bin/context-engine topics`.\n\nExample:\n\nbin/context-engine dev"
    )
    for name in _leaves(typer.main.get_command(_app())):
        assert run(*name, "--help") == 0
        assert "bin/bin/" not in capsys.readouterr().out, name


def test_no_list_of_choices_is_broken_in_a_word(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the column of the types, which is narrow; the help beside it has room."""
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 80)
    root = typer.main.get_command(_app())
    for name in _leaves(root):
        assert run(*name, "--help") == 0
        for line in capsys.readouterr().out.splitlines():
            assert not re.search(r"<\w+\|[^>]*$", line), (name, line)


def _app() -> typer.Typer:
    from workers.cli.main import app

    return app


def _leaves(command: object) -> list[list[str]]:
    inside: dict[str, object] = getattr(command, "commands", {})
    if not inside:
        return [[]]
    return [[word, *rest] for word, one in inside.items() for rest in _leaves(one)]


def test_a_fault_of_an_option_is_told_by_the_option() -> None:
    """As it was typed: a contract keeps some of them under `options`."""
    asked = typer.Typer()

    @asked.command()
    def build(after: Annotated[list[str], typer.Option()]) -> None:
        typer.echo(typed_place("options.after"))

    assert CliRunner().invoke(asked, ["--after", "abc"]).stdout == "--after\n"


def test_a_line_of_watch_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long: what follows in a pipe reads lines."""
    out = io.StringIO()
    console = people(width=40)
    console.file = out
    monkeypatch.setattr(watch, "console", console)
    watch._as_line(MemberChanged(workspace_id="w" * 40, user_id="u" * 40, op="updated"))
    (line,) = out.getvalue().splitlines()
    assert line.endswith("op=updated")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("Ana asks: why?", ["      Ana asks: why?"]),
        (
            "lets in    table: one two three four",
            ["      lets in    table: one two", "                 three four"],
        ),
        (
            "Ben sees 323 of 701 tasks, not more",
            ["      Ben sees 323 of 701", "      tasks, not more"],
        ),
    ],
)
def test_what_a_step_of_the_demo_saw_goes_on_below_its_words(line: str, shown: list[str]) -> None:
    """Beside the label, if it has one."""
    out = io.StringIO()
    _print_line(Console(file=out, width=31 if "lets" in line else 27), line)
    assert out.getvalue().splitlines() == shown
