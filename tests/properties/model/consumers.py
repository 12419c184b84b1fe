"""Consumers: fetch, mark, prove, commit; frozen anywhere, killed, and a partition handed over.

`workers/change_applier.py`, `workers/proving.py`, `context_engine/adapters/redis/renew.lua`.
Who lost a partition and does not know it yet goes on as before; only its commits are refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.properties.model import store as redis
from tests.properties.model.explorer import Step
from tests.properties.model.state import (
    NEVER,
    NOWHERE,
    UNTOLD,
    Consumer,
    Hand,
    Record,
    Reign,
    State,
)
from tests.properties.model.store import NAMES, clock_of, replaced
from tests.properties.model.world import Fault, World

FETCHED, ASKED, APPLIED, ENDING = range(4)


def steps(world: World, state: State) -> Iterator[Step[State]]:
    for number, consumer in enumerate(state.consumers):
        if consumer.hand:
            yield from _handle(world, state, number, consumer, consumer.hand)
        else:
            yield from _fetch(world, state, number, consumer)
        if state.left.kills and (consumer.hand or any(consumer.positions)):
            yield _dies(state, number)
    if state.left.handovers:
        yield from _handovers(state)


def _fetch(world: World, state: State, number: int, consumer: Consumer) -> Iterator[Step[State]]:
    """The next record of a partition, and the first thing done with it, in one step.

    Who stands still in between might as well have fetched later.
    """
    for place, position in enumerate(consumer.positions):
        if position >= len(state.topic[place]):
            continue
        hand = Hand(place, position, FETCHED)
        positions = replaced(consumer.positions, place, position + 1)
        taken = consumer._replace(positions=positions, hand=hand)
        after = _set(state, number, taken)
        if world.fault is Fault.POSITION_BEFORE_APPLY:
            after = _commit(after, number, place, position)
            yield f"consumer {number} fetches, commits {position + 1}", after, ""
        else:
            yield from _handle(world, after, number, taken, hand)
    if world.fault is Fault.LIVE_BY_OWN_POSITION:
        yield from _by_position(world, state, number, consumer)


def _by_position(
    world: World, state: State, number: int, consumer: Consumer
) -> Iterator[Step[State]]:
    for place, position in enumerate(consumer.positions):
        if state.owners[place] == number and position == len(state.topic[place]):
            for index in redis.serving(state):
                reign = state.servers[index].reign
                after = redis.renewed(world, state, index, place, state.now, reign, position)
                if after != state:
                    yield f"consumer {number}, at the end of {place}, proves it", after, ""


def _handle(
    world: World, state: State, number: int, consumer: Consumer, hand: Hand
) -> Iterator[Step[State]]:
    record = state.topic[hand.place][hand.offset]
    if hand.step == APPLIED:
        done = _set(state, number, consumer._replace(hand=()))
        done = _commit(done, number, hand.place, hand.offset)
        yield f"consumer {number} commits {hand.offset + 1}", done, ""
        if state.left.retries:
            fewer = state._replace(left=state.left._replace(retries=state.left.retries - 1))
            again = consumer._replace(hand=hand._replace(step=FETCHED))
            yield f"consumer {number} must apply it again", _set(fewer, number, again), ""
    elif record.version:
        for index in redis.serving(state):
            after = redis.marked(world, state, index, create=False)
            if world.texts:
                after = redis.dropped(after, index, record.version)
            said = f"consumer {number} marks version {record.version} on {NAMES[index]}"
            yield said, _applied(_noted(world, after, number, hand.place, index), number, hand), ""
    elif hand.step == FETCHED:
        yield from _hear(world, state, number, hand, record)
    elif hand.step == ENDING:
        asked = _set(state, number, consumer._replace(hand=hand._replace(step=ASKED)))
        for index in redis.serving(asked):
            after = redis.begun(asked, index, record.timeline)
            yield f"consumer {number} ends all that {NAMES[index]} has cached", after, ""
    else:
        yield from _prove(world, state, number, consumer, hand, record)


def _noted(world: World, state: State, number: int, place: int, index: int) -> State:
    """Where it marked: what is proven must be where the marks are."""
    if world.fault is Fault.MARKS_ANYWHERE:
        return state
    consumer, reign = state.consumers[number], state.servers[index].reign
    before = consumer.marks[place]
    now = reign if before in ((), reign) else NEVER
    return _set(state, number, consumer._replace(marks=replaced(consumer.marks, place, now)))


def _hear(
    world: World, state: State, number: int, hand: Hand, record: Record
) -> Iterator[Step[State]]:
    """Asks who reigns; a beat of another proves nothing, nor one from before it was settled."""
    before = state
    for index in redis.serving(before):
        state = redis.pulsed(world, before, index)
        at_once = world.fault is Fault.BEATS_AT_ONCE
        early = record.at < redis.settles(world, state, index) and not at_once
        reign = state.servers[index].reign
        told = f"consumer {number} hears the beat for {record.at}; {NAMES[index]} reigns"
        other = not redis.same(world, reign, record.reign)
        if early or (other and world.fault is not Fault.ANY_REIGN_LIVE):
            yield f"{told}: ignored", _applied(state, number, hand), ""
            continue
        ending = _of_another(world, state, index, record)
        hearing = hand._replace(step=ENDING if ending else ASKED)
        asked = state.consumers[number]._replace(hand=hearing)
        after = _set(state, number, asked)
        if world.failovers or world.overlapping or ending:
            yield told, after, ""
            continue
        # Nobody else can reign: what follows can be one step.
        for said, proved, broken in _prove(world, after, number, asked, hearing, record):
            yield f"{told}; {said}", proved, broken


def _of_another(world: World, state: State, index: int, record: Record) -> bool:
    """Whether the beat is of another database than all that is cached; one that proves nothing
    any more tells of the database before, perhaps."""
    counts = record.at + world.life > clock_of(world, state, index)
    noted = state.servers[index].store.timeline
    named = record.timeline not in (UNTOLD, noted)
    return named and counts and world.fault is not Fault.NO_TIMELINE


def _prove(
    world: World, state: State, number: int, consumer: Consumer, hand: Hand, record: Record
) -> Iterator[Step[State]]:
    """Asks what was proven before it, reads again under a new reign, or renews."""
    place, reign = hand.place, record.reign
    under, marks = consumer.under[place], consumer.marks[place]
    if hand.back and world.fault is not Fault.PROVEN_BY_RETRY:
        yield (
            f"consumer {number} proves nothing: it was sent back",
            _applied(state, number, hand),
            "",
        )
    elif not under:
        yield from _inherit(world, state, number, consumer, hand)
    elif redis.same(world, under, reign) and (not marks or redis.same(world, marks, reign)):
        for index in redis.serving(state):
            after = redis.renewed(world, state, index, place, record.at, reign, hand.offset + 1)
            said = f"consumer {number} proves {place} on {NAMES[index]} for {record.at}"
            yield said, _applied(after, number, hand), ""
    elif state.left.rereads:
        start = NOWHERE if world.fault is Fault.NO_SEEK_BACK else 0
        state = _rewound(state, number, place, start, reign)
        said = f"consumer {number} reads {place} again"
        yield said, _applied(state, number, hand._replace(back=True)), ""


def _inherit(
    world: World, state: State, number: int, consumer: Consumer, hand: Hand
) -> Iterator[Step[State]]:
    """Asks what was proven before it; what lies between that and its own beginning is read."""
    place = hand.place
    for index in redis.serving(state):
        reign, covered = state.servers[index].store.applied[place] or (NEVER, NOWHERE)
        said = f"consumer {number} asks {NAMES[index]} what was proven"
        gap = covered < consumer.since[place]
        if gap and not state.left.rereads:
            continue
        if gap and world.fault not in (Fault.GAP_INHERITED, Fault.POSITION_BEFORE_APPLY):
            after = _rewound(state, number, place, covered, reign)
            back = hand._replace(back=True)
            yield f"{said}; reads from {covered}", _applied(after, number, back), ""
        else:
            knows = consumer._replace(under=replaced(consumer.under, place, reign))
            yield said, _set(state, number, knows), ""


def _rewound(state: State, number: int, place: int, start: int, reign: Reign) -> State:
    one = state.consumers[number]
    state = state._replace(left=state.left._replace(rereads=state.left.rereads - 1))
    start = min(start, one.positions[place])
    return _set(
        state,
        number,
        one._replace(
            positions=replaced(one.positions, place, start),
            since=replaced(one.since, place, start),
            under=replaced(one.under, place, reign),
            marks=replaced(one.marks, place, ()),
        ),
    )


def _applied(state: State, number: int, hand: Hand) -> State:
    """The record is done with; the commit comes next, at once where nothing depends on it."""
    consumer = state.consumers[number]
    if state.left.kills or state.left.handovers or state.left.retries:
        return _set(state, number, consumer._replace(hand=hand._replace(step=APPLIED)))
    done = _set(state, number, consumer._replace(hand=()))
    return _commit(done, number, hand.place, hand.offset)


def _commit(state: State, number: int, place: int, offset: int) -> State:
    if state.owners[place] != number:
        return state
    return state._replace(committed=replaced(state.committed, place, offset + 1))


def _dies(state: State, number: int) -> Step[State]:
    """Another starts in its place, from what was committed."""
    left = state.left._replace(kills=state.left.kills - 1)
    consumer = state.consumers[number]
    own = (o if state.owners[p] == number else NOWHERE for p, o in enumerate(state.committed))
    none: tuple[Reign, ...] = ((),) * len(consumer.under)
    fresh = Consumer(tuple(own), state.committed, none, none, ())
    return (
        f"consumer {number} is killed and starts again",
        _set(state, number, fresh)._replace(left=left),
        "",
    )


def _handovers(state: State) -> Iterator[Step[State]]:
    """The group gives a partition to another member; who had it may learn of it late."""
    fewer = state._replace(left=state.left._replace(handovers=state.left.handovers - 1))
    for place, owner in enumerate(state.owners):
        for number, consumer in enumerate(state.consumers):
            if number == owner:
                continue
            start = state.committed[place]
            gets = consumer._replace(
                positions=replaced(consumer.positions, place, start),
                since=replaced(consumer.since, place, start),
                under=replaced(consumer.under, place, ()),
                marks=replaced(consumer.marks, place, ()),
            )
            after = _set(fewer, number, gets)._replace(owners=replaced(state.owners, place, number))
            yield f"partition {place} goes to consumer {number}", after, ""


def _set(state: State, number: int, consumer: Consumer) -> State:
    return state._replace(consumers=replaced(state.consumers, number, consumer))
