"""One dead letter for a terminal and for programs: everything in it is data, bounded, escaped."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from workers.cli.evidence import clock, line
from workers.cli.terminal import plural

if TYPE_CHECKING:
    from context_engine.models.base import JsonObject
    from events.ledger import State
    from events.letters import Letter
    from events.records import RawMessage

HEADERS = 100
"""Headers that are shown."""
HEADER_CHARS = 300
BODY_CHARS = 4_000
"""How much of a body is shown to people, unless it is asked for whole."""


def letter_json(one: Letter) -> JsonObject:
    """What a letter says of itself."""
    return {
        "letter": str(one.place),
        "buriedAt": _iso(one.at_ms),
        "originalTopic": one.original_topic,
        "originalOffset": one.original_offset,
        "originalAt": None if one.original_ms is None else _iso(one.original_ms),
        "group": one.group,
        "error": one.error,
        "reason": one.reason,
        "workspaceIds": list(one.workspace_ids),
        "replays": one.replays,
        "truncated": one.truncated,
        "bytes": one.bytes,
    }


def whole_json(one: Letter, raw: RawMessage, state: State | None) -> JsonObject:
    """With headers, key and body: as text where they are UTF-8, else in base 64."""
    return {
        **letter_json(one),
        "handled": None if state is None else {"act": state.act, "at": _iso(state.since_ms)},
        "headers": [{"name": name, **_bytes(value)} for name, value in raw.headers],
        "key": _bytes(raw.key),
        "body": _bytes(raw.value),
    }


def _bytes(value: bytes | None) -> JsonObject:
    if value is None:
        return {"text": None}
    try:
        return {"text": value.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}


def show_letter(one: Letter, raw: RawMessage, state: State | None, *, whole: bool) -> None:
    """For people."""
    line(f"{one.place}  buried {at(one.at_ms)}")
    line(f"{one.error}: {one.reason}")
    if state is not None:
        line(f"{state.act} {at(state.since_ms)}")
    line(f"workspace {', '.join(one.workspace_ids) or 'unknown'}{after_replays(one)}")
    line(f"key {_shown(raw.key)}")
    for name, value in raw.headers[:HEADERS]:
        shown = _number(name, value) or _shown(value)
        line(f"  {_escaped(name)[:HEADER_CHARS]}: {shown}")
    if len(raw.headers) > HEADERS:
        line(f"  and {len(raw.headers) - HEADERS} more headers")
    body = _body(raw.value)
    line(body if whole or len(body) <= BODY_CHARS else body[:BODY_CHARS])
    if not whole and len(body) > BODY_CHARS:
        line(f"… {len(body):,} characters in all; --whole shows them")


def after_replays(one: Letter) -> str:
    """How often it was sent again before it was buried, to stand behind other words."""
    return f"  after {plural(one.replays, 'replay')}" if one.replays else ""


def _number(name: str, value: bytes | None) -> str | None:
    """A number of the burial's own as people write it; None for everything else."""
    from events.dead_letters import NUMBERS

    if value is None or len(value) != NUMBERS.get(name):
        return None
    return str(int.from_bytes(value, "big", signed=True))


def _shown(value: bytes | None) -> str:
    """As text where it is one that prints, else as hexadecimal digits."""
    if value is None:
        return "null"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = ""
    shown = text if text.isprintable() and (text or not value) else f"0x{value.hex()}"
    return shown if len(shown) <= HEADER_CHARS else f"{shown[:HEADER_CHARS]}…"


def _body(value: bytes | None) -> str:
    """JSON indented, other text line by line with what does not print escaped."""
    if value is None:
        return "no body: a tombstone"
    try:
        return _lines(json.dumps(json.loads(value), ensure_ascii=False, indent=2))
    except (ValueError, RecursionError):
        return _lines(value.decode(errors="backslashreplace"))


def _lines(text: str) -> str:
    return "\n".join(_escaped(one) for one in text.split("\n"))


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)


def _iso(ms: int) -> str | None:
    at = _time(ms)
    return None if at is None else at.isoformat()


def at(ms: int) -> str:
    """A time for people: local, to the second."""
    found = _time(ms)
    return "no time" if found is None else clock(found)


def _time(ms: int) -> datetime | None:
    """None for what no calendar has: it stands in a header that anybody may write."""
    try:
        return datetime.fromtimestamp(ms / 1_000, UTC).astimezone()
    except (OverflowError, ValueError, OSError):
        return None
