"""Tokens: what a writer was given, and a later request names to be answered after its write.

Opaque to whoever carries them. A token that cannot be proven applied is no error: the request is
then built from the database at once, which has the write in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never
from urllib.parse import unquote

from context_engine import keys
from context_engine.errors import InvalidRequest
from context_engine.liveness import Proven
from context_engine.ports import Epoch, Marked, Moment, Place, Reign

MAX_TOKENS = 64
"""Tokens that one request may name; each write gives one for each workspace it touched."""


@dataclass(frozen=True, slots=True)
class AppliedMark:
    """A mark that stands: proven by a clock of the same epoch and reign that is not below it."""

    workspace_id: str
    epoch: Epoch
    reign: Reign
    clock: int


@dataclass(frozen=True, slots=True)
class Published:
    """A record on a change topic: proven once the consumer's applied position is beyond it."""

    place: Place
    offset: int


@dataclass(frozen=True, slots=True)
class Unproven:
    """A write whose mark does not stand yet: never proven."""

    outbox_id: str


Token = AppliedMark | Published | Unproven


def text_of(token: Token) -> str:
    """The token as it travels."""
    match token:
        case AppliedMark(workspace, epoch, reign, clock):
            parts: tuple[str, ...] = ("mark", workspace, epoch, reign, str(clock))
        case Published(place, offset):
            parts = ("topic", place.topic, str(place.partition), str(offset))
        case Unproven(outbox_id):
            parts = ("unmarked", outbox_id)
        case _:
            assert_never(token)
    return ":".join(map(keys.part, parts))


def of_mark(marked: Marked) -> Token:
    """The token of a mark. A mark without a clock found nothing to end, and proves nothing."""
    if marked.epoch is None or marked.clock is None:
        return Unproven("")
    return AppliedMark(marked.workspace_id, marked.epoch, marked.reign, marked.clock)


def parse(text: str) -> Token:
    """The token that `text` is. Raises `InvalidRequest` for what nobody was given."""
    match [unquote(one) for one in text.split(":")]:
        case ["mark", workspace, epoch, reign, clock] if _number(clock):
            return AppliedMark(workspace, Epoch(epoch), Reign(reign), int(clock))
        case ["topic", topic, partition, offset] if _number(partition) and _number(offset):
            return Published(Place(topic, int(partition)), int(offset))
        case ["unmarked", outbox_id]:
            return Unproven(outbox_id)
        case _:
            raise InvalidRequest(
                "is no token; give what a write or `emit` returned", field="options.after"
            )


def _number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 18


def proven(token: Token, workspace_id: str, moment: Moment, liveness: Proven) -> bool:
    """Whether a look at `moment` saw every cached answer judged with the write applied.

    A mark of another workspace proves nothing here: its clock is another.
    """
    match token:
        case AppliedMark():
            same = (token.workspace_id, token.epoch, token.reign) == (
                workspace_id,
                moment.epoch,
                moment.reign,
            )
            return same and token.clock <= moment.clock
        case Published(place, offset):
            return offset < liveness.applied.get(place, 0)
        case Unproven():
            return False
        case _:
            assert_never(token)
