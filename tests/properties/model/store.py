"""What the scripts in `context_engine/adapters/redis` do, on one server's tuples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from tests.properties.model.state import (
    FIRST,
    UNTOLD,
    Entry,
    Hash,
    Live,
    Moment,
    Reign,
    Server,
    State,
    Store,
)
from tests.properties.model.world import Fault, World

T = TypeVar("T")

NAMES = "AB"
"""Of the servers."""


def replaced(items: tuple[T, ...], place: int, item: T) -> tuple[T, ...]:
    return (*items[:place], item, *items[place + 1 :])


def serving(state: State) -> Iterator[int]:
    """The servers that answer: the primary, and while it is not cut off, the deposed one."""
    for index, server in enumerate(state.servers):
        if server.reign:
            yield index


def pulsed(world: World, state: State, index: int) -> State:
    """`pulse.lua`: who is asked for the first time notes since when its reign is known."""
    server = state.servers[index]
    seen = server.store.seen
    any_note = world.fault is Fault.SIGHT_OF_ANOTHER
    if server.reign == FIRST or (seen and (any_note or seen[0] == server.reign)):
        return state
    note = server.reign, clock_of(world, state, index)
    return put(state, index, server.store._replace(seen=note))


def settles(world: World, state: State, index: int) -> int:
    """When no primary that this one deposed answers any more, as far as its note tells."""
    server = state.servers[index]
    if server.reign == FIRST or not server.store.seen:
        return 0
    return server.store.seen[1] + world.lag


def settled(world: World, state: State, index: int) -> bool:
    return clock_of(world, state, index) >= settles(world, state, index)


def clock_of(world: World, state: State, index: int) -> int:
    return state.now + world.skew * index


def put(state: State, index: int, store: Store) -> State:
    """`state`, with another content of a server."""
    return under(state, index, state.servers[index]._replace(store=store))


def under(state: State, index: int, server: Server) -> State:
    """`state`, with another server in that place."""
    first, second = state.servers
    return state._replace(servers=(first, server) if index else (server, second))


def same(world: World, one: Reign, other: Reign) -> bool:
    if world.fault is Fault.NO_REIGN:
        return bool(one) and bool(other)
    if world.fault is Fault.RUN_ID_ALONE:
        return one[:1] == other[:1]
    return one == other


def epoch_of(world: World, epochs: int) -> int:
    return 0 if world.fault is Fault.NO_EPOCH else epochs


def told(state: State, timeline: int) -> State:
    """A mark or a fill names the database's timeline."""
    if timeline in (UNTOLD, 0) or timeline != state.database.timeline:
        return state
    return state._replace(database=state.database._replace(told=True))


def noted(world: World, state: State, index: int, timeline: int) -> Hash | tuple[()]:
    """The marks, as who names a timeline finds them: of another they end."""
    found = state.servers[index].store.hash
    if not found or timeline == UNTOLD:
        return found
    other = found.timeline not in (UNTOLD, timeline) and world.fault is not Fault.NO_TIMELINE
    return () if other else found._replace(timeline=timeline)


def marked(
    world: World, state: State, index: int, *, create: bool, timeline: int = UNTOLD
) -> State:
    """`mark.lua`: the clock rises, and the mark with it."""
    store = state.servers[index].store
    if world.fault is Fault.DELETE_IN_PLACE_OF_MARK:
        return put(state, index, store._replace(entry=()))
    if world.fault is Fault.COMPARED_ONLY_AT_FILL:
        store = store._replace(entry=())
    return _counted(world, put(state, index, store), index, create, timeline, matters=True)


def raised(world: World, state: State, index: int, timeline: int = UNTOLD) -> State:
    """A mark of another tag."""
    if not state.servers[index].store.hash:
        return state
    return _counted(world, state, index, True, timeline, matters=False)


def _counted(
    world: World, state: State, index: int, create: bool, timeline: int, *, matters: bool
) -> State:
    state = told(state, timeline)
    if world.fault is Fault.MARKS_OF_ANY_DATABASE:
        timeline = UNTOLD
    found = noted(world, state, index, timeline)
    if not found:
        if not create:
            return put(state, index, state.servers[index].store._replace(hash=()))
        found = Hash(epoch_of(world, state.epochs), 0, 0, timeline)
        state = state._replace(epochs=state.epochs + 1)
    clock = found.clock + 1
    found = found._replace(clock=clock, mark=clock if matters else found.mark)
    return put(state, index, state.servers[index].store._replace(hash=found))


def moment(world: World, state: State, index: int) -> Moment | tuple[()]:
    """What `look.lua` says of the clock; () where there is no hash."""
    server = state.servers[index]
    found = server.store.hash
    if not found:
        if world.fault is not Fault.COMPARED_ONLY_AT_FILL:
            return ()
        found = Hash(0, 0, 0)
    return Moment(found.epoch, server.reign, found.clock, clock_of(world, state, index))


def valid(world: World, server: Server, entry: Entry, now: int) -> bool:
    """`proven` in `common.lua`."""
    if entry.expires <= now:
        return False
    if world.fault is Fault.COMPARED_ONLY_AT_FILL:
        return True
    found = server.store.hash
    if not found or found.epoch != entry.epoch or not same(world, server.reign, entry.reign):
        return False
    if entry.clock > found.clock:
        return False
    if world.fault is Fault.DELETE_IN_PLACE_OF_MARK:
        return True
    return entry.clock == found.clock or found.mark <= entry.clock or not entry.tagged


def hit(world: World, state: State, index: int, entry: Entry, now: int) -> State:
    """The stamp is renewed by the call that validated it."""
    found = state.servers[index].store.hash
    late = world.fault is Fault.STAMP_WITHOUT_LOOKING
    if found and entry.clock != found.clock and not late:
        entry = entry._replace(clock=found.clock)
    if world.fault is Fault.SLIDING_EXPIRY:
        entry = entry._replace(expires=now + world.ttl)
    store = state.servers[index].store
    return put(state, index, store._replace(entry=entry))


def stamped(state: State, index: int) -> State:
    """A fault: the stamp is renewed by a second call, which validates nothing."""
    store = state.servers[index].store
    if not store.hash or not store.entry:
        return state
    entry = store.entry._replace(clock=store.hash.clock)
    return put(state, index, store._replace(entry=entry))


def filled(
    world: World, state: State, index: int, at: Moment, version: int, timeline: int = UNTOLD
) -> tuple[State, str]:
    """`fill.lua`. With the promise it breaks."""
    server = state.servers[index]
    if timeline != UNTOLD and _stands(world, server, at):
        state, found = told(state, timeline), noted(world, state, index, timeline)
        server = server._replace(store=server.store._replace(hash=found))
        if not found:
            return under(state, index, server), ""
    store = server.store
    entry = Entry(at.epoch, at.reign, at.clock, version, at.at, at.at + world.ttl)
    if world.fault is Fault.NO_ABSENCE_TAG:
        entry = entry._replace(tagged=version > 0)
    refused = _refused(world, server, entry, at)
    broken = ""
    if world.texts and (not refused or world.fault is Fault.UNCONDITIONAL_TEXT):
        store = store._replace(text=entry)
        if version < state.dropped:
            broken = "derived text that a change had ended is there again"
    if not refused:
        if world.fault is Fault.STAMP_AT_FILL and store.hash:
            entry = entry._replace(clock=store.hash.clock)
        store = store._replace(entry=entry)
    return put(state, index, store), broken


def _refused(world: World, server: Server, entry: Entry, at: Moment) -> bool:
    found = server.store.hash
    if world.fault is Fault.COMPARED_ONLY_AT_FILL:
        return found.mark > at.clock if found else False
    if not found or not _stands(world, server, at):
        return True
    if world.fault in (Fault.STAMP_AT_FILL, Fault.DELETE_IN_PLACE_OF_MARK):
        return False
    return entry.tagged and found.mark > at.clock


def _stands(world: World, server: Server, at: Moment) -> bool:
    """Whether the marks are those that the build's clock was read of."""
    found = server.store.hash
    return bool(found) and found.epoch == at.epoch and same(world, server.reign, at.reign)


def founded(world: World, state: State, index: int) -> State:
    """`found.lua`: makes a hash where there is none."""
    store = state.servers[index].store
    if store.hash:
        return state
    made = Hash(epoch_of(world, state.epochs), 0, 0)
    return put(state, index, store._replace(hash=made))._replace(epochs=state.epochs + 1)


def begun(state: State, index: int, timeline: int) -> State:
    """`begin.lua`: all that is cached ends, and it is noted of which database the rest will be."""
    store = state.servers[index].store._replace(hash=(), timeline=timeline)
    return put(state, index, store)


def dropped(state: State, index: int, version: int) -> State:
    """The consumer deletes what its change made untrue. The answer's entry may go at any time."""
    store = state.servers[index].store._replace(text=())
    return put(state, index, store)._replace(dropped=max(state.dropped, version))


def renewed(
    world: World, state: State, index: int, place: int, at: int, reign: Reign, offset: int
) -> State:
    """`renew.lua`: a beat of another reign than the server's proves nothing."""
    server = state.servers[index]
    if not same(world, server.reign, reign) and world.fault is not Fault.ANY_REIGN_LIVE:
        return state
    store, ends = server.store, at + world.life
    applied = replaced(store.applied, place, (reign, offset))
    standing = store.live[place]
    live = store.live
    stands = standing.ends if standing and same(world, standing.reign, server.reign) else 0
    if ends > max(stands, clock_of(world, state, index)):
        live = replaced(live, place, Live(ends, reign))
    return put(state, index, store._replace(live=live, applied=applied))
