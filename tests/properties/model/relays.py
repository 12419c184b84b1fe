"""Relays publish rows and die anywhere; a heart beats behind the rows that it saw.

`workers/relay.py`, `workers/heartbeat.py`, `context_engine/adapters/sql/outbox.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.properties.model import store as redis
from tests.properties.model.explorer import Step
from tests.properties.model.state import UNTOLD, Change, Heart, Record, Relay, State
from tests.properties.model.store import NAMES, clock_of, replaced
from tests.properties.model.world import Fault, World

IDLE, PULSED, SAW, LOOKED_FIRST = range(4)
STILL = Heart(IDLE, 0, (), (), 0)


def steps(world: World, state: State) -> Iterator[Step[State]]:
    for number, relay in enumerate(state.relays):
        if number and state.relays[number - 1] == relay:
            continue  # what the one may do, the other may
        rest = (*state.relays[:number], *state.relays[number + 1 :])
        yield from _relay(world, state, rest, relay)
    if world.fault is not Fault.LIVE_BY_OWN_POSITION:
        yield from _heart(world, state)


def _relay(
    world: World, state: State, rest: tuple[Relay, ...], relay: Relay
) -> Iterator[Step[State]]:
    held = relay.held
    if not held:
        found = tuple(v for v in _unpublished(world, state) if v not in _locked(state))
        if found:
            yield (
                f"a relay claims the rows of {_all(found)}",
                _set(state, rest, Relay(False, found)),
                "",
            )
        return
    if not relay.sent:
        topic = state.topic
        for version in held:
            place = version % world.partitions
            record = Record(version, state.now, ())
            topic = replaced(topic, place, (*topic[place], record))
        after = _set(state, rest, Relay(True, held))._replace(topic=topic)
        yield f"the relay publishes {_all(held)}", after, ""
    else:
        changes = state.changes
        for version in held:
            row = changes[version - 1]._replace(published=True)
            changes = replaced(changes, version - 1, row)
        after = _set(state, rest, Relay(False, ()))._replace(changes=changes)
        if world.fault is Fault.OUTBOX_BY_CURSOR:
            after = after._replace(cursor=max(state.cursor, *(changes[v - 1].id for v in held)))
        yield f"the relay notes {_all(held)} as published", after, ""
    if state.left.deaths:
        fewer = state._replace(left=state.left._replace(deaths=state.left.deaths - 1))
        yield "the relay dies; its locks fall", _set(fewer, rest, Relay(False, ())), ""


def _unpublished(world: World, state: State) -> Iterator[int]:
    for version, change in enumerate(state.changes, start=1):
        if not change.published and not change.lost and not _passed(world, state, change):
            yield version


def _passed(world: World, state: State, change: Change) -> bool:
    return world.fault is Fault.OUTBOX_BY_CURSOR and change.id <= state.cursor


def _locked(state: State) -> frozenset[int]:
    return frozenset(version for relay in state.relays for version in relay.held)


def _heart(world: World, state: State) -> Iterator[Step[State]]:
    heart = state.heart
    late = world.fault is Fault.TIME_AFTER_SELECT
    if heart.step == IDLE and state.left.beats:
        state = state._replace(left=state.left._replace(beats=state.left.beats - 1))
        yield from _look(world, state) if late else _pulse(world, state, PULSED)
    elif heart.step == LOOKED_FIRST:
        yield from _pulse(world, state, SAW)
    elif heart.step == PULSED:
        yield from _look(world, state)
    elif heart.step == SAW:
        yield from _send(world, state)


def _pulse(world: World, state: State, then: int) -> Iterator[Step[State]]:
    """`pulse.lua`: the server's time and who it is."""
    for index in redis.serving(state):
        at, reign = clock_of(world, state, index), state.servers[index].reign
        after = redis.pulsed(world, state, index)
        heart = state.heart._replace(step=then, at=at, reign=reign, place=0)
        after = after._replace(heart=heart)
        yield f"a heart reads the time of {NAMES[index]}: {at}", after, ""


def _look(world: World, state: State) -> Iterator[Step[State]]:
    """What is committed and unpublished, in a plain SELECT."""
    seen = tuple(_unpublished(world, state))
    if world.fault is Fault.LIVE_BY_SKIP_LOCKED:
        seen = tuple(version for version in seen if version not in _locked(state))
    then = LOOKED_FIRST if world.fault is Fault.TIME_AFTER_SELECT else SAW
    told = world.fault is not Fault.BEATS_OF_ANY_DATABASE
    timeline = state.database.timeline if told else UNTOLD
    heart = state.heart._replace(step=then, waits=seen, timeline=timeline)
    yield f"the heart sees unpublished rows: {_all(seen)}", state._replace(heart=heart), ""


def _send(world: World, state: State) -> Iterator[Step[State]]:
    """Through one partition after the other, once all that it saw is published."""
    heart = state.heart
    rows = [state.changes[v - 1] for v in heart.waits]
    waiting = [row for row in rows if not row.published and not row.lost]
    if waiting and world.fault is not Fault.NO_WAIT_FOR_ROWS:
        return
    record = Record(0, heart.at, heart.reign, heart.timeline)
    place = heart.place
    topic = replaced(state.topic, place, (*state.topic[place], record))
    last = place + 1 == world.partitions
    after = state._replace(topic=topic, heart=STILL if last else heart._replace(place=place + 1))
    yield f"the heart beats for {heart.at} through partition {place}", after, ""


def _set(state: State, rest: tuple[Relay, ...], relay: Relay) -> State:
    return state._replace(relays=tuple(sorted((*rest, relay))))


def _all(versions: tuple[int, ...]) -> str:
    return ", ".join(f"version {version}" for version in versions) or "none"
