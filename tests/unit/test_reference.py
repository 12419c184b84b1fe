"""The generated part of the documentation is that of the code, and the examples are messages."""

from __future__ import annotations

import json
import re
import shlex
from enum import IntEnum
from pathlib import Path
from typing import get_args

import pytest
from pydantic import TypeAdapter

from context_engine.changes import AnyChange, Change, domain_change
from context_engine.settings import Settings
from events import asyncapi, examples, messages
from events.examples import CHANGES, as_sent, console_line, headers_of
from events.records import RawMessage
from events.topics import Topics
from tests.support.schemas import validator
from workers.change_reader import read
from workers.cli.shared import Exit
from workers.reference import errors, pages, stale
from workers.runner import ExitCode

DOCS = Path(__file__).parents[2] / "docs"


def test_the_committed_pages_are_the_codes() -> None:
    """`make schema` was run after the last change of what they are made from."""
    assert stale(DOCS) == []


def test_a_stale_page_is_named(tmp_path: Path) -> None:
    """The check can fail."""
    assert stale(tmp_path) == list(pages())


def test_every_setting_says_what_it_means() -> None:
    """In the code, so that the page and whoever reads the class see the same."""
    assert [name for name, one in Settings.model_fields.items() if not one.description] == []


def test_every_exit_code_is_explained() -> None:
    """Those of the commands and those of the workers."""
    enums: tuple[type[IntEnum], ...] = (Exit, ExitCode)
    assert {int(code) for enum in enums for code in enum} <= set(errors.MEANINGS)


# -- changes -----------------------------------------------------------------------------------


def test_there_is_one_example_of_every_change() -> None:
    """In the order of the union."""
    assert [type(change) for change in CHANGES] == list(get_args(AnyChange))
    assert all(isinstance(change, Change) for change in CHANGES)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.type)
def test_an_example_is_a_change(change: AnyChange) -> None:
    """Its JSON parses as the contract, validates by the committed schema, and is on the page."""
    text = as_sent(change)
    parsed = domain_change.validate_json(text)
    assert parsed.model_copy(update={"change_id": change.change_id}) == change
    validator("DomainChange").validate(json.loads(text))
    assert f"```json\n{text}\n```" in (DOCS / "changes.md").read_text()


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.type)
def test_a_console_producers_line_is_a_change(change: AnyChange) -> None:
    """Split as that producer splits it, it is read by the consumer, on the right topic and key."""
    topics = asyncapi.default_topics()
    (line,) = [
        one
        for one in re.findall(r"```sh\n(.*?)\n```", (DOCS / "changes.md").read_text(), re.DOTALL)
        if f"ce_type:{messages.change_type(change)}," in one
    ]
    assert line == console_line(change, topics.topic_for(change).name, "127.0.0.1:9092")
    words = shlex.split(line.replace("\\\n", " "))
    assert words[:2] == ["printf", r"%s\t%s\t%s\n"]
    headers, key, value = words[2:5]
    found = read(
        RawMessage(
            topic=words[words.index("--topic") + 1],
            partition=0,
            offset=0,
            timestamp=0,
            key=key.encode(),
            value=value.encode(),
            headers=tuple(
                (name, text.encode())
                for name, _, text in (header.partition(":") for header in headers.split(","))
            ),
        )
    )
    assert found == domain_change.validate_json(as_sent(change))
    assert key == change.workspace_id
    assert not re.search(r"[\t']", value)
    assert set(words[-4:]) == {"--property", "parse.headers=true", "parse.key=true"}
    assert headers_of(change)["ce_id"] == json.loads(value)["changeId"]


# -- asyncapi ----------------------------------------------------------------------------------


def test_the_document_names_every_topic_and_message() -> None:
    """Every topic of this version with its partitions, every CloudEvents type once."""
    document = asyncapi.document()
    topics = asyncapi.default_topics()
    addressed = {
        one["address"]: one["bindings"]["kafka"]["partitions"]
        for one in document["channels"].values()
        if one["address"] is not None
    }
    assert addressed == {topic.name: topic.partitions for topic in topics.all()}
    types = {messages.change_type(change) for change in CHANGES}
    types |= {messages.BUILD_REQUESTED, messages.READY, messages.BUILD_FAILED, messages.EVICTED}
    types |= {messages.HEARTBEAT}
    assert set(document["components"]["messages"]) == types | {
        asyncapi.DEAD_LETTER,
        asyncapi.HANDLED,
    }


def test_every_reference_in_the_document_leads_somewhere() -> None:
    """Channels, messages and schemas alike."""
    document = asyncapi.document()
    for ref in re.findall(r'"\$ref": "#/([^"]+)"', asyncapi.text()):
        place = document
        for part in ref.split("/"):
            place = place[part]


def test_topic_names_come_from_the_settings() -> None:
    """A deployment with names of its own can have its own document."""
    settings = Settings.model_construct(topic_ready="mine.ready")
    document = asyncapi.document(Topics.of(settings))
    assert document["channels"]["ready"]["address"] == "mine.ready"


def test_the_other_examples_are_messages_too() -> None:
    """By the committed schemas."""
    for name, example in (
        ("BuildRequest", examples.REQUEST),
        ("BuildFailed", examples.FAILED),
        ("ContextEvicted", examples.EVICTED),
    ):
        adapter = TypeAdapter(type(example))
        validator(name).validate(adapter.dump_python(example, mode="json", exclude_unset=True))
