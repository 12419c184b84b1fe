"""What spans workspaces: a right of an organization changes while a workspace is attached to it.

Who changes it locks the organization's row first, and lists its workspaces in a later statement;
who attaches a workspace locks that row shared. `context_engine/adapters/sql/services`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.properties.model.explorer import Step

BEGUN, LOCKED, LISTED, COMMITTED, ACKNOWLEDGED = range(5)
ABSENT, HIT_NEED = 0, 1


class Writing(NamedTuple):
    """A transaction: of the change, or of the one that attaches."""

    step: int = BEGUN
    snapshot: bool = False
    """Whether the list that it took, or was to take, has the new workspace in it."""
    marked: bool = False


class Spanning(NamedTuple):
    """One workspace is attached to the organization while its right changes."""

    role: int = 0
    attached: bool = False
    change: Writing = Writing()
    attach: Writing = Writing()
    clock: int = 0
    build: tuple[int, ...] = ()
    """The clock that it read, then the version of the right."""
    entry: tuple[int, ...] = ()
    """Clock and version."""


@dataclass(frozen=True, slots=True)
class Locks:
    """How the writers go about it."""

    locks: bool = True
    list_after_lock: bool = True
    """In a later statement, whose snapshot is later than the lock."""


def steps(locks: Locks, state: Spanning) -> Iterator[Step[Spanning]]:
    yield from _change(locks, state)
    yield from _attach(locks, state)
    yield from _build(state)


def _holds(writing: Writing) -> bool:
    return writing.step in (LOCKED, LISTED)


def _change(locks: Locks, state: Spanning) -> Iterator[Step[Spanning]]:
    mine = state.change
    if mine.step == BEGUN and not (locks.locks and _holds(state.attach)):
        mine = mine._replace(step=LOCKED)
        said = "the change locks the organization" if locks.locks else "the change begins"
        yield said, state._replace(change=mine), ""
    if mine == Writing() and not locks.list_after_lock:
        early = mine._replace(snapshot=state.attached)
        if early != mine:
            yield "the change takes its snapshot", state._replace(change=early), ""
    mine = state.change
    if mine.step == LOCKED:
        listed = state.attached if locks.list_after_lock else mine.snapshot
        after = mine._replace(step=LISTED, snapshot=listed)
        yield (
            f"the change lists the workspaces: {'with' if listed else 'without'} the new one",
            (state._replace(change=after)),
            "",
        )
    elif mine.step == LISTED:
        after = mine._replace(step=COMMITTED)
        yield "the change commits", state._replace(change=after, role=1), ""
    elif mine.step == COMMITTED:
        after = mine._replace(step=ACKNOWLEDGED)
        clock = state.clock + mine.snapshot
        said = "the change marks what it listed, acknowledges"
        yield said, state._replace(change=after, clock=clock), ""


def _attach(locks: Locks, state: Spanning) -> Iterator[Step[Spanning]]:
    mine = state.attach
    if mine.step == BEGUN and not (locks.locks and _holds(state.change)):
        said = "the attaching locks the organization, shared" if locks.locks else "it is attached"
        yield said, state._replace(attach=mine._replace(step=LOCKED)), ""
    elif mine.step == LOCKED:
        after = mine._replace(step=COMMITTED)
        yield "the attaching commits", state._replace(attach=after, attached=True), ""
    elif mine.step == COMMITTED:
        after = mine._replace(step=ACKNOWLEDGED)
        said = "the attaching marks its workspace, acknowledges"
        yield said, state._replace(attach=after, clock=state.clock + 1), ""


def _build(state: Spanning) -> Iterator[Step[Spanning]]:
    """Builds in the new workspace, one at a time, and requests that look at what they stored."""
    build = state.build
    if not build:
        yield f"a build reads the clock: {state.clock}", state._replace(build=(state.clock,)), ""
    elif len(build) == 1 and state.attached:
        read = (*build, state.role)
        yield f"the build reads the right: version {state.role}", state._replace(build=read), ""
    elif len(build) == 2:
        stored = build if state.clock == build[0] else state.entry
        said = "stored" if state.clock == build[0] else "refused"
        yield f"the build fills: {said}", state._replace(build=(), entry=stored), ""
    if state.entry and state.entry[0] == state.clock:
        owed = int(state.change.step == ACKNOWLEDGED)
        broken = "answered from before a change" if state.entry[1] < owed else ""
        yield f"a request hits: version {state.entry[1]}", state, broken
