"""What happens by itself: time, other changes, Redis's misfortunes, rebalances."""

from __future__ import annotations

from collections.abc import Iterator

from tests.properties.model import store as redis
from tests.properties.model.explorer import Step
from tests.properties.model.state import Database, Relay, State, Store
from tests.properties.model.store import NAMES, put, replaced
from tests.properties.model.world import World


def steps(world: World, state: State) -> Iterator[Step[State]]:
    left = state.left
    if state.now < world.ticks and not _holds_up(world, state):
        yield f"time passes: {state.now + 1}", _later(world, state), ""
    if left.others:
        fewer = state._replace(left=left._replace(others=left.others - 1))
        for index in redis.serving(state):
            yield (
                f"another change marks {NAMES[index]}",
                redis.raised(world, fewer, index, state.database.timeline),
                "",
            )
    if left.evictions:
        yield from _evictions(state)
    if left.flushes:
        fewer = state._replace(left=left._replace(flushes=left.flushes - 1))
        for index in redis.serving(state):
            places = len(state.servers[index].store.live)
            empty = Store((), (), (), ((),) * places, ((),) * places)
            yield f"{NAMES[index]} is flushed", put(fewer, index, empty), ""
    if world.failovers or world.overlapping:
        yield from _failovers(world, state)
    if left.databases:
        yield from _databases(state)


def _holds_up(world: World, state: State) -> bool:
    """A deposed primary is cut off before its lag has passed."""
    overlap = bool(state.servers[1 - state.primary].reign)
    return overlap and state.now + 1 >= state.promoted + world.lag


def _later(world: World, state: State) -> State:
    """A moment later; what has ended by itself is gone."""
    state = state._replace(now=state.now + 1)
    if state.lookout and state.lookout[1] <= state.now:
        state = state._replace(lookout=())
    for index, server in enumerate(state.servers):
        now = redis.clock_of(world, state, index)
        live = tuple(one if one and one.ends > now else () for one in server.store.live)
        if live != server.store.live:
            state = put(state, index, server.store._replace(live=live))
    return state


def _evictions(state: State) -> Iterator[Step[State]]:
    fewer = state._replace(left=state.left._replace(evictions=state.left.evictions - 1))
    for index in redis.serving(state):
        store, name = state.servers[index].store, NAMES[index]
        if store.hash:
            yield f"{name} evicts the marks", put(fewer, index, store._replace(hash=())), ""
        if store.entry:
            yield f"{name} evicts the answer", put(fewer, index, store._replace(entry=())), ""
        if store.text:
            yield f"{name} evicts the text", put(fewer, index, store._replace(text=())), ""
        for place, live in enumerate(store.live):
            if live:
                gone = store._replace(live=replaced(store.live, place, ()))
                yield f"{name} evicts the proof of {place}", put(fewer, index, gone), ""
        if any(store.applied):
            gone = store._replace(applied=((),) * len(store.applied))
            yield f"{name} evicts what was proven", put(fewer, index, gone), ""


def _failovers(world: World, state: State) -> Iterator[Step[State]]:
    """A replica follows as it can; is promoted with what it has; the other goes on until cut off.

    Cut off, it becomes the replica of the new one, and takes its content at the next copying.
    """
    here, other = state.primary, 1 - state.primary
    leader, follower = state.servers[here], state.servers[other]
    if follower.reign:
        cut = redis.under(state, other, follower._replace(reign=()))._replace(promoted=0)
        yield f"{NAMES[other]}, deposed, is cut off", cut, ""
    elif state.left.failovers:
        if follower.store != leader.store:
            yield f"{NAMES[other]} copies {NAMES[here]}", put(state, other, leader.store), ""
        number = state.promotions + 1
        crowned = redis.under(state, other, follower._replace(reign=(other, number)))
        left = state.left._replace(failovers=state.left.failovers - 1)
        after = crowned._replace(primary=other, promotions=number, promoted=state.now, left=left)
        yield f"{NAMES[other]} is promoted", after, ""
    if not world.partitions and not follower.reign:
        yield from _proof(world, state)


def _databases(state: State) -> Iterator[Step[State]]:
    """A standby of the database that lags takes the place of the primary, which is fenced: the
    last commits are gone, and perhaps the notes which of the others are published."""
    left = state.left._replace(databases=state.left.databases - 1)
    changes = state.changes
    for kept in range(len(changes) + 1):
        stands = changes[:kept]
        after = state._replace(
            database=Database(state.database.timeline + 1, state.now, told=False),
            requests=tuple(sorted(o._replace(need=min(o.need, kept)) for o in state.requests)),
            relays=tuple(Relay(sent=False, held=()) for _ in state.relays),
            left=left,
        )
        lost = tuple(one._replace(lost=True) for one in changes[kept:])
        said = f"the database is failed over, with {kept} of {len(changes)} changes"
        yield said, after._replace(changes=(*stands, *lost)), ""
        behind = tuple(one._replace(published=False) for one in stands)
        if behind != stands:
            yield f"{said}, without notes", after._replace(changes=(*behind, *lost)), ""


def _proof(world: World, state: State) -> Iterator[Step[State]]:
    """In place of a consumer: it has read all changes again under the new reign."""
    here = state.primary
    reign = state.servers[here].reign
    if redis.same(world, state.proven, reign):
        return
    noted = redis.pulsed(world, state, here)
    if not redis.settled(world, noted, here):
        if noted != state:
            yield f"a consumer sees the reign of {NAMES[here]}", noted, ""
        return
    after = noted._replace(proven=reign)
    for _ in range(min(1, len(state.changes))):
        after = redis.marked(world, after, here, create=False)
    yield f"all changes are applied again on {NAMES[here]}: proven", after, ""
