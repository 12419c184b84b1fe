"""What the commands on evidence share: finding a snapshot, bounds, and words for people."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Annotated, Optional, TypeVar

import typer
from rich.text import Text

from context_engine.errors import InvalidRequest, NotFound
from workers.cli.shared import Misused, config, console, run, stderr
from workers.cli.terminal import PLAIN

if TYPE_CHECKING:
    from pydantic import JsonValue

    from context_engine.bootstrap import Parts
    from context_engine.evidence import Denied
    from context_engine.models.base import JsonObject
    from context_engine.ports import SnapshotRecord

T = TypeVar("T")

WHICH = "Context id, or `latest` of all, `latest~1` for the one before it."
ContextId = Annotated[str, typer.Argument(metavar="CONTEXT", help=WHICH)]
Operator = Annotated[
    bool, typer.Option("--operator", help="With the rules that denied: never for agents.")
]
Words = Optional[str]  # noqa: UP045 - typer reads this at run time

FOR_OPERATORS = (
    "For operators only: the rules that denied were never told to the agent. Keep them from it."
)

VALUE_CHARS = 100
"""Longest value on a terminal, in characters."""

MOST_LINES = 200
"""Lines of a text that are compared."""

MOST_LEVELS = 200
"""Deepest nesting of a context; the contract's own and that of the filters in it are far less."""

JSON_CHARS = 4_000
"""Longest value of a difference as JSON, in characters."""

_LATEST = re.compile(r"latest(?:~(\d{1,3}))?")
_AGO = re.compile(r"(\d{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def with_parts(work: Callable[[Parts], Awaitable[T]]) -> T:
    """Runs `work` over the parts of this process; says that it reads, where that takes long."""
    from context_engine import bootstrap

    async def go() -> T:
        async with bootstrap.parts(config()) as wired:
            return await work(wired)

    with stderr.status("reading evidence"):
        return run(go())


async def snapshot_of(wired: Parts, context_id: str) -> SnapshotRecord:
    """By its id, or as `latest`, `latest~1`. Raises `NotFound`, with what to look at.

    Raises `Misused` for another word with `latest`.
    """
    found = None
    if context_id.startswith("latest"):
        counted = _LATEST.fullmatch(context_id)
        if counted is None:
            raise Misused("write `latest`, or `latest~1` for the one before", field="context")
        back = int(counted[1] or 0)
        newest = await wired.snapshots.list(limit=back + 1)
        if len(newest) > back:
            found = await wired.snapshots.get(newest[back].context_id)
    else:
        found = await wired.snapshots.get(context_id)
    if found is None:
        raise NoSnapshot(context_id, wired.settings.snapshot_retention_days)
    return found


class NoSnapshot(NotFound):
    """No evidence under this id, or none any more."""

    def __init__(self, context_id: str, days: int) -> None:
        super().__init__("context", context_id)
        self.message += (
            f"; evidence is kept for {days} days."
            " `context-engine snapshot list` shows what there is."
        )


async def denials_of(wired: Parts, record: SnapshotRecord) -> tuple[Denied, ...]:
    """The rules that denied, those of a cached surface with them, as far as they are kept."""
    from context_engine.evidence import denied, surface_of

    at = surface_of(record)
    return denied(record, await wired.snapshots.get(at) if at else None)


def parsed(record: SnapshotRecord) -> JsonObject:
    """The context as it was told.

    Raises `InvalidRequest` for evidence that is damaged, its other parts included.
    """
    from context_engine.evidence import object_of

    try:
        stored: JsonValue = json.loads(record.context)
    except ValueError:
        raise InvalidRequest(
            f"the context of {record.context_id} is damaged: no JSON", field="CONTEXT"
        ) from None
    except RecursionError:
        raise _too_deep(record) from None
    if not _within(MOST_LEVELS, stored):
        raise _too_deep(record)
    for part, kept in (
        ("operator trace", record.operator_trace),
        ("compression", record.compression),
    ):
        object_of(kept, record.context_id, part)
    return object_of(stored, record.context_id, "context")


def _too_deep(record: SnapshotRecord) -> InvalidRequest:
    return InvalidRequest(
        f"the context of {record.context_id} is damaged: nested deeper than {MOST_LEVELS} levels",
        field="CONTEXT",
    )


def _within(levels: int, value: JsonValue) -> bool:
    """Whether a JSON value is nested no deeper."""
    level = [value]
    for _ in range(levels):
        inner: list[JsonValue] = []
        for one in level:
            if isinstance(one, (dict, list)):
                inner.extend(one.values() if isinstance(one, dict) else one)
        if not inner:
            return True
        level = inner
    return False


def versions_json(record: SnapshotRecord, context: JsonObject) -> JsonObject:
    from context_engine.evidence import versions_of

    return {"schema": context.get("schemaVersion"), **versions_of(record)}


def moment(text: str | None, option: str = "--since") -> datetime | None:
    """A time, or how long ago: `2026-05-01`, `2026-05-01T09:30`, `90m`, `2d`.

    Raises `Misused`.
    """
    if text is None:
        return None
    try:
        if (ago := _AGO.fullmatch(text)) is not None:
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise Misused(
            "no time; write 2026-05-01, 2026-05-01T09:30, 90m or 2d", field=option
        ) from None


def clock(at: datetime) -> str:
    """Local time, to the second, with its offset."""
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S%z}"


def line(text: str) -> None:
    """A line as it is; what users chose in it is cleaned by the caller."""
    console.print(text, **PLAIN)


def said(text: str, style: str = "") -> Text:
    """Words of a user for a terminal: on one line, bounded, without what could steer it."""
    from context_engine.wording import bounded, clean

    return Text(bounded(clean(text), VALUE_CHARS), style=style)


def differing(old: str, new: str) -> Iterator[tuple[str, str]]:
    """Two texts, as the lines that are in one alone, with the sign of their side.

    A line starts where it differs, if that is far in; of either, the first lines are compared.
    """
    from context_engine.wording import bounded, clean

    before, after = ((one.splitlines() or [""])[:MOST_LINES] for one in (old, new))
    for tag, i, j, k, m in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        ours, theirs = before[i:j], after[k:m]
        skipped = 0
        if len(ours) == len(theirs) == 1:
            skipped = max(0, _same_start(ours[0], theirs[0]) - VALUE_CHARS // 2)
        for sign, lines in (("-", ours), ("+", theirs)):
            for text in lines:
                shown = ("…" if skipped else "") + clean(text[skipped:])
                yield sign, bounded(shown, VALUE_CHARS)


def _same_start(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def value_text(value: JsonValue) -> str:
    """A JSON value on one line, bounded."""
    from context_engine.wording import bounded, clean

    return bounded(clean(json.dumps(value, ensure_ascii=False)), VALUE_CHARS)


def bounded_json(value: JsonValue) -> JsonValue:
    """A JSON value, or how it begins where it is too long."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= JSON_CHARS:
        return value
    return {"truncated": True, "chars": len(text), "start": text[:JSON_CHARS]}


def warn_operator(text: str = FOR_OPERATORS) -> None:
    """On stderr, so that it is told with --json too."""
    stderr.print(text, style="yellow", **PLAIN)


def denial_json(one: Denied) -> JsonObject:
    return {"what": one.what, "rule": one.rule, "readBy": one.read_by}
