"""docs/asyncapi.md: the AsyncAPI document as a page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from events import asyncapi
from events.topics import DAY_MS, HOUR_MS
from workers.reference import markdown
from workers.reference.markdown import code, table
from workers.reference.schemas import values

Json = dict[str, Any]  # the document: any JSON

HEAD = """
The same as [asyncapi.json](asyncapi.json), for people. Topic names are [settings](settings.md);
these are the defaults. [Messages](messages.md) explains them, [changes](changes.md) shows how to
send each change.
"""

FRAMING_BYTES = 1_024
"""What the broker's limit has beyond the largest message."""


def page() -> str:
    document = asyncapi.document()
    messages = document["components"]["messages"]
    operations = document["operations"]
    return markdown.page(
        "Topics and messages",
        HEAD,
        "## Topics",
        table(
            ("topic", "the engine", "partitions", "kept for", "largest message", "messages"),
            (_topic(name, one, operations) for name, one in document["channels"].items()),
        ),
        "## Messages",
        *(_message(one, document) for one in messages.values()),
    )


def _topic(name: str, channel: Json, operations: Json) -> tuple[str, ...]:
    there = f"#/channels/{name}"
    does = {one["action"] for one in operations.values() if one["channel"]["$ref"] == there}
    word = {"receive": "reads", "send": "writes"}
    kafka = channel.get("bindings", {}).get("kafka")
    listed = ", ".join(f"[{one}](#{_anchor(one)})" for one in channel["messages"])
    if kafka is None:
        return (channel["title"], "writes", "", "", "", listed)
    held = kafka["topicConfiguration"]
    size = (held["max.message.bytes"] - FRAMING_BYTES) // 1024
    return (
        code(channel["address"]),
        " ".join(word[one] for one in sorted(does)),
        str(kafka["partitions"]),
        _span(held["retention.ms"]),
        f"{size // 1024} MiB" if size % 1024 == 0 else f"{size} KiB",
        listed,
    )


def _span(milliseconds: int) -> str:
    for unit, name in ((DAY_MS, "day"), (HOUR_MS, "hour")):
        if milliseconds % unit == 0:
            number = milliseconds // unit
            return f"{number} {name}{'s' if number > 1 else ''}"
    return f"{milliseconds} ms"


def _anchor(heading: str) -> str:
    return heading.replace(".", "")


def _message(message: Json, document: Json) -> str:
    key = message["bindings"]["kafka"]["key"]["description"]
    about = " ".join((message["summary"], message.get("description", "")))
    parts = [
        f"### {message['name']}",
        about.strip(),
        f"Key: {key}",
        table(("header", "required", "value"), _headers(message["headers"])),
    ]
    ref = message["payload"].get("$ref", "").rpartition("/")[2]
    if ref:
        schema = document["components"]["schemas"][ref]
        parts.append(table(("field", "required", "values"), _fields(schema)))
    parts += [
        f"```json\n{json.dumps(one['payload'], ensure_ascii=False, indent=2)}\n```"
        for one in message.get("examples", ())
    ]
    return "\n\n".join(parts)


def _headers(headers: Json) -> Iterator[tuple[str, ...]]:
    for name, one in headers["properties"].items():
        required = "yes" if name in headers["required"] else "no"
        value = one.get("description") or (code(one["const"]) if "const" in one else values(one))
        yield code(name), required, value


def _fields(schema: Json) -> Iterator[tuple[str, ...]]:
    for name, one in schema["properties"].items():
        required = "yes" if name in schema.get("required", []) else "no"
        yield code(name), required, values(one)
