"""How a write is told: what was done, what it replaced, and whether its mark stands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from context_engine.errors import Rejected
from workers.cli.domain.shared import with_services
from workers.cli.shared import camel, console, show_json, stderr
from workers.cli.terminal import PLAIN

if TYPE_CHECKING:
    from context_engine.adapters.sql.services import DomainServices, Token, Written
    from context_engine.models.base import JsonObject

UNMARKED = """\
The write is committed; the cache could not be told (see --json for the reason). The relay repeats
it; until then a cached answer may be old."""


@dataclass(frozen=True, slots=True)
class Stood:
    """What stood before a write, and its version."""

    values: JsonObject
    version: int


Before = Callable[["DomainServices"], Awaitable[Stood | None]]
"""Reads what stands; None where nothing does."""


@dataclass(frozen=True, slots=True)
class Replaces:
    """A write that puts something in the place of what stood."""

    before: Before
    after: JsonObject | None
    """None: it is taken away."""


def write(
    as_json: bool,
    what: str,
    work: Callable[[DomainServices], Awaitable[Written | Sequence[Written]]],
    replaces: Replaces | None = None,
) -> None:
    """Writes, and shows what was done: a line for each thing, or all of it as JSON.

    `what`: the kind of the thing, as people call it; where one is named, with its id.
    """
    from context_engine.adapters.sql.services import Written

    async def go(services: DomainServices) -> tuple[Stood | None, list[Written]]:
        stood = None
        if replaces is not None:
            with suppress(Rejected):  # the write is refused in words of its own
                stood = await replaces.before(services)
        done = await work(services)
        return stood, [done] if isinstance(done, Written) else list(done)

    stood, answers = with_services(go)
    if as_json:
        show_json([_as_json(one, stood, replaces) for one in answers])
        return
    for one in answers:
        line = f"{_did(one)} {what} {one.id}{_change(one, stood, replaces)}: version {one.version}"
        console.print(f"{line}, {_marks(one)}", **PLAIN)
    if not all(one.marked for one in answers):
        stderr.print(UNMARKED, style="yellow", **PLAIN)


def _did(one: Written) -> str:
    """Such as `updated`; a write without a change of its own is one all the same."""
    return next((op for change in one.changes if (op := getattr(change, "op", None))), "wrote")


def _known(one: Written, stood: Stood | None) -> bool:
    """Whether `stood` is what the write replaced: nobody else wrote in between."""
    if _did(one) in ("created", "added"):
        return stood is None
    return stood is not None and stood.version in (one.version, one.version - 1)


def _change(one: Written, stood: Stood | None, replaces: Replaces | None) -> str:
    if replaces is None:
        return ""
    before = stood.values if stood is not None else {}
    after = replaces.after or {}
    told = []
    for name in dict.fromkeys((*before, *after)):
        old = before.get(name, "nothing") if _known(one, stood) else "what another wrote"
        told.append(f"{name} {old} -> {after.get(name, 'nothing')}")
    return f", {', '.join(told)}"


def _marks(one: Written) -> str:
    """What became of the marks, which end the contexts that the write made untrue."""
    from context_engine.ports import Marked

    if not one.tokens:
        return "nothing to mark"
    if not one.marked:
        return "NOT MARKED"
    clocks = [token.clock for token in one.tokens if isinstance(token, Marked)]
    told = [str(clock) for clock in clocks if clock is not None]
    return f"marked at clock {', '.join(told)}" if told else "marked; nothing was cached"


TOLD = {"change_id", "workspace_id", "type", "op"}
"""What of a change its actor is told."""


def _as_json(one: Written, stood: Stood | None, replaces: Replaces | None) -> dict[str, object]:
    """`before` is left out where another write came between, and so it is not known.

    `afterTokens`: what `build --after` takes.
    """
    made: dict[str, object] = {"id": one.id, "did": _did(one)}
    if replaces is not None:
        if _known(one, stood):
            made["before"] = stood.values if stood is not None else None
        made["after"] = replaces.after
    return made | {
        "version": one.version,
        "marked": one.marked,
        "afterTokens": list(one.after),
        "tokens": [_as_data(token) for token in one.tokens],
        # Their ids say what they were about; more of them may be out of the actor's sight.
        "changes": [change.model_dump(mode="json", include=TOLD) for change in one.changes],
    }


def _as_data(token: Token) -> dict[str, object]:
    """Without how long its writer waited: by now it has."""
    told = camel(token)
    told.pop("waitMs", None)
    return told
