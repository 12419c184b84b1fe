"""docs/changes.md: what to emit for which write, from the contracts and their examples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from context_engine.changes import AnyChange, Kind, kind_of
from events.asyncapi import default_topics
from events.examples import CHANGES, as_sent, console_line
from events.messages import change_type
from workers.reference import markdown
from workers.reference.markdown import code, table
from workers.reference.schemas import Schema, values

HEAD = """
A product that keeps its domain elsewhere emits one of these after each write, to the topic of its
kind, with the workspace's id as the key. [Adapters](adapters.md) says how; the union's JSON Schema
is [DomainChange](schema/DomainChange.json).

Only what an example needs is shown. Every change may carry `actorId` and `at` too. A `changeId`
of your own makes a repetition visible; without one it gets a random one.
"""

LINE = """
The shell lines use Kafka's console producer. It splits a line at its tabs into headers, key and
value. The address is that of your broker. Newer versions call `--property` `--reader-property`, and
take both.
"""

SHARED = {"changeId", "workspaceId", "actorId", "at", "type"}

BOOTSTRAP = "127.0.0.1:9092"


def page() -> str:
    topics = default_topics()
    kinds: tuple[Kind, ...] = get_args(Kind)
    rows = [
        (
            code(topics.change(kind).name),
            ", ".join(f"[{c.type}](#{_anchor(c)})" for c in CHANGES if kind_of(c) == kind),
        )
        for kind in kinds
    ]
    return markdown.page(
        "Changes",
        HEAD,
        table(("topic", "changes"), rows),
        LINE,
        *(_section(change, topics.topic_for(change).name) for change in CHANGES),
    )


def _anchor(change: AnyChange) -> str:
    return change.type.replace(".", "")


def _section(change: AnyChange, topic: str) -> str:
    schema = type(change).model_json_schema(by_alias=True)
    about = " ".join(str(schema.get("description", "")).split())
    return "\n\n".join(
        [
            f"## {change.type}",
            about,
            f"`{type(change).__name__}`, topic `{topic}`, `ce_type` `{change_type(change)}`.",
            table(("field", "required", "values"), _fields(schema)),
            f"```json\n{as_sent(change)}\n```",
            f"```sh\n{console_line(change, topic, BOOTSTRAP)}\n```",
        ]
    )


def _fields(schema: Schema) -> Iterator[tuple[str, str, str]]:
    """The fields of one change beyond those that all have."""
    required = schema.get("required", [])
    for name, field in schema["properties"].items():
        if name not in SHARED:
            text = values(field, schema.get("$defs", {}))
            yield code(name), "yes" if name in required else "no", text
