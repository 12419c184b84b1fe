"""The domain commands tell of a fault in the words of who typed: by the option that held it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import typer

from tests.support.commands import Cli
from workers.cli.domain import app
from workers.cli.options import named

HALF = "\ud800"
"""Half a character, which no service stores: it is told which argument held it."""
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
