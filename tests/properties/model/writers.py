"""Writers: each commits, marks, acknowledges, and may die between any two of these.

`context_engine/adapters/sql/services/writing.py`. Who answers `marked: false` promises no more
than who dies, so that needs no step of its own. An abstract consumer repeats the marks where
none is modelled.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.properties.model import store as redis
from tests.properties.model.explorer import Step
from tests.properties.model.state import Change, Stage, State
from tests.properties.model.store import NAMES, replaced
from tests.properties.model.world import Fault, World


def steps(world: World, state: State) -> Iterator[Step[State]]:
    begun = len(state.changes) + len(state.opened)
    if begun < world.changes:
        yield from _begin(world, state, begun + 1)
    for id in state.opened:
        yield f"writer {id} commits version {len(state.changes) + 1}", _committed(state, id), ""
    for version, change in enumerate(state.changes, start=1):
        if change.stage == Stage.COMMITTED:
            yield from _mark(world, state, version)
        elif change.stage == Stage.MARKED:
            yield from _wait(world, state, version)
    yield from _repeats(world, state)


def _begin(world: World, state: State, id: int) -> Iterator[Step[State]]:
    opened = state._replace(opened=(*state.opened, id))
    if world.fault is Fault.MARK_BEFORE_COMMIT_ONLY:
        for index in redis.serving(state):
            after = redis.marked(world, opened, index, create=True)
            yield f"writer {id} marks {NAMES[index]}, before its commit", after, ""
    else:
        yield f"writer {id} commits version {id}", _committed(opened, id), ""


def _committed(state: State, id: int) -> State:
    opened = tuple(one for one in state.opened if one != id)
    timeline = state.database.timeline
    change = Change(id, state.now, Stage.COMMITTED, False, (), timeline)
    return state._replace(opened=opened, changes=(*state.changes, change))


def _mark(world: World, state: State, version: int) -> Iterator[Step[State]]:
    change = state.changes[version - 1]
    if world.fault is Fault.MARK_BEFORE_COMMIT_ONLY:
        after = _at(state, version, change._replace(stage=Stage.ACKNOWLEDGED))
        yield f"writer of version {version} acknowledges it", after, ""
        return
    for index in redis.serving(state):
        reign = state.servers[index].reign
        marked = change._replace(stage=Stage.MARKED, reign=reign)
        said = f"writer of version {version} marks {NAMES[index]}"
        asked = redis.pulsed(world, state, index)
        if world.fault is Fault.MARKS_AT_ONCE or redis.settled(world, asked, index):
            # At once: later, it would only owe less.
            marked, said = marked._replace(stage=Stage.ACKNOWLEDGED), f"{said}, acknowledges"
        after = redis.marked(
            world, _at(asked, version, marked), index, create=True, timeline=change.timeline
        )
        yield said, after, ""


def _wait(world: World, state: State, version: int) -> Iterator[Step[State]]:
    """Until the primary that was deposed, and which others may read, is cut off. Where another
    than the one that it marked reigns by then, it marks again."""
    change = state.changes[version - 1]
    where = [i for i in redis.serving(state) if state.servers[i].reign == change.reign]
    if not where:
        yield from _mark(world, state, version)
    for index in where:
        asked = redis.pulsed(world, state, index)
        if redis.settled(world, asked, index):
            after = _at(asked, version, change._replace(stage=Stage.ACKNOWLEDGED))
            yield f"writer of version {version} acknowledges it", after, ""


def _repeats(world: World, state: State) -> Iterator[Step[State]]:
    """A change comes through the outbox: late, again, in any order, or killed after its mark."""
    if not state.left.events or world.fault is Fault.MARK_BEFORE_COMMIT_ONLY:
        return
    fewer = state._replace(left=state.left._replace(events=state.left.events - 1))
    for version in range(1, len(state.changes) + 1):
        for index in redis.serving(state):
            after = redis.marked(world, fewer, index, create=False)
            said = f"the event of version {version} marks {NAMES[index]}"
            yield said, after, ""
            if world.texts:
                yield f"{said}, and drops the text", redis.dropped(after, index, version), ""


def _at(state: State, version: int, change: Change) -> State:
    return state._replace(changes=replaced(state.changes, version - 1, change))
