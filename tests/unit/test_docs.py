"""The documentation says what the code says."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import pytest
import typer

from context_engine import policy
from context_engine.changes import AnyChange, kind_of
from context_engine.facts import FieldFacts
from context_engine.settings import Settings
from events import cloudevents, messages
from events.asyncapi import default_topics
from events.examples import CHANGES
from events.messages import BuildRequest
from events.records import RawMessage
from events.schema import schema_of
from tests.support.documents import (
    DOCUMENTS,
    ROOT,
    CommandLine,
    blocks,
    command_lines,
    excerpts,
    named_commands,
)
from workers.cli.main import app
from workers.seed import shape

COMMANDS = command_lines()
MESSAGES = "docs/messages.md"


def test_every_setting_is_documented() -> None:
    """And nothing that is no setting."""
    text = (ROOT / "docs" / "settings.md").read_text()
    named = set(re.findall(r"^\| `(CONTEXT_[A-Z_]+)`", text, re.MULTILINE))
    assert named == {f"CONTEXT_{name.upper()}" for name in Settings.model_fields}


def test_settings_that_are_named_anywhere_exist() -> None:
    """A renamed setting is renamed everywhere. Those of the tests are not the product's."""
    known = {f"CONTEXT_{name.upper()}" for name in Settings.model_fields} | {"CONTEXT_TEST_KAFKA"}
    for document in DOCUMENTS:
        named = set(re.findall(r"CONTEXT_[A-Z]+(?:_[A-Z]+)*\b", document.read_text()))
        assert named <= known, document.name


def test_links_between_documents_lead_somewhere() -> None:
    """Every relative link names a file that is there, and a heading that is in it."""
    for document in DOCUMENTS:
        for target, heading in re.findall(
            r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)", document.read_text().replace("\n", "")
        ):
            file = document.parent / target if target else document
            assert file.exists(), f"{document.name}: {target}"
            if heading:
                assert heading in _anchors(file.read_text()), f"{document.name}: #{heading}"


def _anchors(text: str) -> set[str]:
    """Headings as links name them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


# -- commands and excerpts ---------------------------------------------------------------------


@pytest.mark.parametrize("line", COMMANDS, ids=lambda line: line.name)
def test_a_command_is_one(line: CommandLine) -> None:
    """It exists, it has these options, and what it needs is there. It is parsed, not run."""
    command, rest = _found(line.words)
    if "--help" not in rest:
        command.make_context(command.name, rest)


def test_commands_in_sentences_exist() -> None:
    """With the options that are named; what they need is left to the reader."""
    found = [(name, words) for name, words in named_commands() if words[0] not in ("COMMAND", "…")]
    assert len(found) > 10
    for name, words in found:
        command, rest = _found(words)
        options = {option for one in command.params for option in one.opts} | {"--help"}
        assert {word for word in rest if word.startswith("--")} <= options, f"{name}: {words}"


def _found(words: list[str]) -> tuple[Any, list[str]]:
    """The command that these words name, and the rest of them."""
    command: Any = typer.main.get_command(app)
    while words and not words[0].startswith("-"):
        inside = getattr(command, "commands", None)
        if inside is None:
            break
        assert words[0] in inside, words
        command, words = inside[words[0]], words[1:]
    return command, words


def test_commands_are_found() -> None:
    """The documentation shows some."""
    assert len(COMMANDS) > 20


def test_excerpts_are_in_their_files() -> None:
    """Word by word."""
    found = excerpts()
    assert len(found) > 5
    for block, file, text in found:
        assert text.rstrip("\n") in file.read_text(), block.name


# -- messages ----------------------------------------------------------------------------------


def test_the_requests_in_the_documentation_are_some() -> None:
    """Binary by their headers and data, and structured; read by the codec and the contract."""
    data, structured = (one.text for one in blocks("json") if one.document == MESSAGES)
    table = re.findall(r"^\| `(ce_\w+|content-type)` \| (.+) \|$", _messages(), re.MULTILINE)
    headers = {name: re.sub(r".*?`([^`]+)`.*", r"\1", text) for name, text in table}
    headers["ce_id"] = "r-1"
    binary = cloudevents.decode(_raw(data, headers))
    other = cloudevents.decode(_raw(structured, {"content-type": "application/cloudevents+json"}))
    for event in (binary, other):
        assert event.type == messages.BUILD_REQUESTED
        request = BuildRequest.model_validate_json(event.data)
        assert request.input.table_ids == ("tbl-tasks",)


def test_the_console_producers_request_is_one() -> None:
    """As that producer splits it."""
    (line,) = (one.text for one in blocks("sh") if one.document == MESSAGES)
    headers, _key, value = re.findall(r"^  '(.*)' [\\|]", line, re.MULTILINE)
    event = cloudevents.decode(_raw(value, dict(h.split(":", 1) for h in headers.split(","))))
    assert event.type == messages.BUILD_REQUESTED
    assert BuildRequest.model_validate_json(event.data).request_id == event.id


def _raw(value: str, headers: dict[str, str]) -> RawMessage:
    named = tuple((name, text.encode()) for name, text in headers.items())
    return RawMessage("t", 0, 0, 0, None, value.encode(), named)


def _messages() -> str:
    return (ROOT / MESSAGES).read_text()


def test_the_changes_that_the_documentation_names_are_some() -> None:
    """By their type, in the union or as a CloudEvents type."""
    known = set(re.findall(r'"const": "([a-z-]+\.changed)"', json.dumps(schema_of("DomainChange"))))
    for name in (MESSAGES, "docs/adapters.md"):
        text = (ROOT / name).read_text()
        named = set(re.findall(r"`(?:domain\.)?([a-z-]+\.changed)`", text))
        assert named == known, name


def test_each_topic_is_told_with_its_messages() -> None:
    """The tables of classes and of types name each change with its own topic."""
    topics = default_topics()
    connecting = (ROOT / "docs" / "connecting.md").read_text()
    for kind, topic in topics.by_kind:
        changes = [change for change in CHANGES if kind_of(change) == kind]
        types = ", ".join(f"`{messages.change_type(one)}`" for one in changes)
        classes = ", ".join(f"`{type(one).__name__}`" for one in changes)
        assert f"| `{topic.name}` | workspace id | {types} |" in _messages()
        assert f"| `{topic.name}` | {classes} |" in connecting
    assert len(get_args(AnyChange)) == len(CHANGES)


# -- permissions -------------------------------------------------------------------------------


def test_the_policies_in_the_documentation_are_some() -> None:
    """They are taken as they stand for the demo's table of tasks."""
    fields = {table.id: _fields_of(table) for table in shape.TABLES}
    for link in shape.LINKS:
        fields[link.table_id][link.id] = _field(link.id, "link", link.linked_table_id)
    found = [one for one in blocks("json") if one.document == "docs/permissions.md"]
    assert len(found) > 1
    for block in found:
        policy.check(policy.parse_policies(json.loads(block.text)), shape.TASKS.id, fields.get)


def _fields_of(table: shape.Table) -> dict[str, FieldFacts]:
    return {field.id: _field(field.id, field.type) for field in table.fields}


def _field(id: str, type: str, linked_table_id: str | None = None) -> FieldFacts:
    return FieldFacts(
        id=id, name=id, type=type, primary=False, linked_table_id=linked_table_id,
        cardinality="one" if type == "user" else "many",
    )  # fmt: skip
