"""Requests: each arrives, looks, and is answered from the cache or by a build, its own or joined.

`context_engine/liveness.py`, `looking.py`, `flights.py`, `engine.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.properties.model import store as redis
from tests.properties.model.explorer import Step
from tests.properties.model.state import Entry, Reign, Request, Stage, State
from tests.properties.model.store import NAMES, clock_of
from tests.properties.model.world import Fault, World

ARRIVED, LOOKED, READ, READY, JOINED, STAMPING, CHECKING = range(7)
STALE = "answered from before a change"
LOST = "answered with what the database lost"
AGED = "answered from what is older than may be"


def steps(world: World, state: State) -> Iterator[Step[State]]:
    if world.partitions and (state.left.requests or world.fault is Fault.DEADLINE_AFTER_READ):
        yield from _lookouts(world, state)
    if state.left.requests:
        yield from _arrives(world, state)
    for number, request in enumerate(state.requests):
        if number and state.requests[number - 1] == request:
            continue  # what the one may do, the other may
        rest = (*state.requests[:number], *state.requests[number + 1 :])
        if request.step == ARRIVED:
            yield from _look(world, state, rest, request)
        elif request.step == LOOKED:
            after = READ if world.fault is Fault.CLOCK_AFTER_DATABASE else READY
            version = current(state)
            read = request._replace(step=after, version=version, timeline=state.database.timeline)
            yield f"a build reads the database: version {version}", _with(state, rest, read), ""
        elif request.step == READ:
            for index in redis.serving(state):
                late = request._replace(step=READY, moment=redis.moment(world, state, index))
                yield f"the build reads the clock of {NAMES[index]}", _with(state, rest, late), ""
        elif request.step == STAMPING:
            for index in redis.serving(state):
                stamped = redis.stamped(state._replace(requests=rest), index)
                yield f"the stamp of the hit is renewed on {NAMES[index]}", stamped, ""
        elif request.step == CHECKING:
            if redis.same(world, request.live, proven(world, state)):
                broken = stale(state, request, request.version)
                yield "it finds that live now; answered", state._replace(requests=rest), broken
        elif request.step == READY:
            yield from _fill(world, state, rest, request)


def over(world: World, state: State) -> bool:
    """Whether no request can be answered from the cache any more, so that nothing can break."""
    if state.left.requests or world.texts:
        return False
    relying = world.joining or world.fault is Fault.DEADLINE_AFTER_READ
    return not any(
        one.step in (JOINED, CHECKING) or (one.step == ARRIVED and (one.live or relying))
        for one in state.requests
    )


def _lookouts(world: World, state: State) -> Iterator[Step[State]]:
    """The worker looks at the proofs of all partitions."""
    for index in redis.serving(state):
        server, now = state.servers[index], clock_of(world, state, index)
        live = [one for one in server.store.live if one and one.ends > now]
        wanted = 1 if world.fault is Fault.ONE_PARTITION else world.partitions
        if len(live) < wanted:
            continue
        reign = server.reign
        one_reign = all(redis.same(world, one.reign, reign) for one in live)
        if not one_reign and world.fault is not Fault.ANY_REIGN_LIVE:
            continue
        deadline = state.now + min(one.ends for one in live) - now
        if state.lookout != (reign, deadline):
            said = f"a worker sees the proof on {NAMES[index]}: live until {deadline}"
            yield said, state._replace(lookout=(reign, deadline)), ""


def proven(world: World, state: State) -> Reign:
    """Whose marks are proven now, as far as the workers know; () for nobody's."""
    if not world.partitions:
        return state.proven
    if state.lookout and state.now < state.lookout[1]:
        return state.lookout[0]
    return ()


def owed(world: World, state: State) -> int:
    """The oldest version that a request that arrives now may be answered from.

    Every change that was acknowledged; of the others, where liveness is proven end to end, those
    that were committed as long ago as a proof lasts.
    """
    need = 0
    for version, change in enumerate(state.changes, start=1):
        if change.lost:
            continue
        late = world.partitions and change.at + world.life <= state.now
        if change.stage == Stage.ACKNOWLEDGED or late:
            need = version
    return need


def current(state: State) -> int:
    """The version that the database has."""
    there = (v for v in range(len(state.changes), 0, -1) if not state.changes[v - 1].lost)
    return next(there, 0)


def _whole(world: World, state: State) -> bool:
    """Whether nothing that lost commits made may answer who arrives now: the store knows of the
    database's failover, or it is as long ago as a proof lasts."""
    database = state.database
    late = bool(world.partitions) and database.since + world.life <= state.now
    return database.timeline > 0 and (database.told or late)


def stale(state: State, request: Request, version: int) -> str:
    if request.whole and version and state.changes[version - 1].lost:
        return LOST
    return STALE if version < request.need else ""


def _arrives(world: World, state: State) -> Iterator[Step[State]]:
    older = any(one.step in (LOOKED, READ, READY) for one in state.requests)
    live, need = proven(world, state), owed(world, state)
    whole = _whole(world, state)
    request = Request(ARRIVED, need, live, (), 0, older and world.joining, whole)
    state = state._replace(left=state.left._replace(requests=state.left.requests - 1))
    if world.partitions or world.joining:
        said = "proven live" if live else "not live"
        yield (
            f"a request arrives, {said}; owed version {need}",
            _with(state, state.requests, request),
            "",
        )
        return
    # Without time nothing passes between the two that could not pass before the first.
    for said, after, broken in _look(world, state, state.requests, request):
        yield f"a request arrives, owed version {need}; {said}", after, broken


def _look(
    world: World, state: State, rest: tuple[Request, ...], request: Request
) -> Iterator[Step[State]]:
    for index in redis.serving(state):
        server, entry = state.servers[index], state.servers[index].store.entry
        usable = bool(request.live) and redis.same(world, request.live, server.reign)
        if world.fault is Fault.ANY_REIGN_LIVE:
            usable = bool(request.live)
        if world.fault is Fault.DEADLINE_AFTER_READ:
            usable = True
        now = clock_of(world, state, index)
        if usable and entry and redis.valid(world, server, entry, now):
            yield _hit(world, state, rest, request, index, entry)
        elif world.joining and any(one.step in (LOOKED, READ, READY) for one in rest):
            joined = request._replace(step=JOINED)
            said = f"miss on {NAMES[index]}, joins the build under way"
            yield said, _with(state, rest, joined), ""
        else:
            at = redis.moment(world, state, index)
            if world.fault is Fault.CLOCK_AFTER_DATABASE:
                at = ()
            looked = request._replace(step=LOOKED, moment=at)
            clock = f"clock {at.clock}" if at else "no clock read"
            said = f"miss on {NAMES[index]}, {clock}; begins a build"
            yield said, _with(state, rest, looked), ""


def _hit(
    world: World,
    state: State,
    rest: tuple[Request, ...],
    request: Request,
    index: int,
    entry: Entry,
) -> Step[State]:
    now, name, reign = clock_of(world, state, index), NAMES[index], state.servers[index].reign
    after = redis.hit(world, state, index, entry, now)._replace(requests=rest)
    if world.fault is Fault.DEADLINE_AFTER_READ:
        read = request._replace(step=CHECKING, live=reign, version=entry.version)
        return f"it reads version {entry.version} on {name}", _with(after, rest, read), ""
    if world.fault is Fault.STAMP_WITHOUT_LOOKING:
        after = _with(after, rest, request._replace(step=STAMPING))
    broken = stale(state, request, entry.version)
    if now - entry.built >= world.ttl:
        broken = broken or AGED
    return f"hit on {name}: version {entry.version}", after, broken


def _fill(
    world: World, state: State, rest: tuple[Request, ...], request: Request
) -> Iterator[Step[State]]:
    """Fills and answers; or answers, and the fill never comes, or the builder dies."""
    landed, broken = _landed(world, state, rest, request.version)
    yield f"the build answers with version {request.version}, unstored", landed, broken
    for index in redis.serving(landed):
        if request.moment:
            after, revived = redis.filled(
                world, landed, index, request.moment, request.version, request.timeline
            )
            said = "stored" if after.servers[index].store.entry else "refused"
        else:
            after, revived, said = redis.founded(world, landed, index), "", "makes the marks"
        said = f"the build of version {request.version} fills {NAMES[index]}: {said}"
        yield said, after, broken or revived


def _landed(
    world: World, state: State, rest: tuple[Request, ...], version: int
) -> tuple[State, str]:
    """Who waited for the build is answered by it if it read the clock after they arrived.

    The others look again, and rely on what is proven if it was when they arrived.
    """
    if not world.joining:
        return state._replace(requests=rest), ""
    now, waiting, broken = proven(world, state), [], ""
    for one in rest:
        serves = not one.older or world.fault is Fault.JOIN_WITHOUT_RULE
        if one.step == JOINED and serves:
            broken = stale(state, one, version) or broken
            continue
        if one.step in (JOINED, ARRIVED):
            one = one._replace(step=ARRIVED, older=False, live=one.live and now)
        waiting.append(one)
    return state._replace(requests=tuple(sorted(waiting))), broken


def _with(state: State, rest: tuple[Request, ...], request: Request) -> State:
    return state._replace(requests=tuple(sorted((*rest, request))))
