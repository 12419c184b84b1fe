"""How much there is of everything, what may be wrong, and how it begins."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tests.properties.model.state import (
    FIRST,
    NOWHERE,
    SECOND,
    UNTOLD,
    Change,
    Consumer,
    Database,
    Entry,
    Hash,
    Heart,
    Left,
    Reign,
    Relay,
    Server,
    Stage,
    State,
    Store,
)


class Fault(Enum):
    """What may be planted; its value says what is wrong."""

    NO_EPOCH = "no epoch"
    NO_REIGN = "no reign"
    RUN_ID_ALONE = "run_id alone for the reign"
    CLOCK_AFTER_DATABASE = "clock read after the database"
    STAMP_AT_FILL = "stamp at fill time"
    DELETE_IN_PLACE_OF_MARK = "delete in place of mark"
    COMPARED_ONLY_AT_FILL = "counter compared only at the fill"
    STAMP_WITHOUT_LOOKING = "stamped anew in a second call"
    MARK_BEFORE_COMMIT_ONLY = "mark before the commit only"
    NO_ABSENCE_TAG = "missing absence tag"
    JOIN_WITHOUT_RULE = "joining a flight without the acceptance rule"
    SLIDING_EXPIRY = "sliding expiry"
    UNCONDITIONAL_TEXT = "unconditional write of derived session text"
    LIVE_BY_OWN_POSITION = "live by the consumer's own position"
    LIVE_BY_SKIP_LOCKED = "live by SKIP LOCKED"
    TIME_AFTER_SELECT = "TIME read after the SELECT"
    NO_WAIT_FOR_ROWS = "relay that does not wait for the rows it saw"
    POSITION_BEFORE_APPLY = "position before apply"
    OUTBOX_BY_CURSOR = "outbox by an id cursor"
    DEADLINE_AFTER_READ = "deadline checked after the read"
    ONE_PARTITION = "one partition's proof for all"
    NO_SEEK_BACK = "no seek back under a new reign"
    ANY_REIGN_LIVE = "live of any reign"
    MARKS_ANYWHERE = "proof where the consumer's marks are not"
    GAP_INHERITED = "proof inherited beyond what it covers"
    PROVEN_BY_RETRY = "proof by the record that sent the consumer back, applied again"
    BEATS_AT_ONCE = "heartbeats used at once under a new reign"
    MARKS_AT_ONCE = "marks acknowledged at once under a new reign"
    SIGHT_OF_ANOTHER = "first sight of the deposed taken for its successor's"
    NO_TIMELINE = "same reign across a database failover"
    MARKS_OF_ANY_DATABASE = "marks that name no timeline"
    BEATS_OF_ANY_DATABASE = "heartbeats that name no timeline"
    ABSENT = "none"


@dataclass(frozen=True, slots=True)
class World:
    """How much there is of everything, and what is wrong."""

    name: str
    changes: int = 1
    others: int = 0
    """Changes of what the answer does not depend on: they raise the clock."""
    requests: int = 2
    events: int = 0
    """Repeats of changes by a consumer that is not modelled."""
    ticks: int = 0
    flushes: int = 0
    evictions: int = 0
    failovers: int = 0
    lag: int = 1
    """For how long a primary that was deposed may answer."""
    databases: int = 0
    """How often a standby of the database that lags is promoted."""
    skew: int = 0
    """How far the second server's clock is ahead."""
    joining: bool = False
    texts: bool = False
    late_number: bool = False
    """A transaction took number 1 and is open, while 2 is committed and published."""
    partitions: int = 0
    """0: no topic, and liveness taken for granted."""
    relays: int = 1
    beats: int = 1
    consumers: int = 1
    deaths: int = 0
    """Of relays."""
    kills: int = 0
    """Of consumers."""
    handovers: int = 0
    retries: int = 0
    """How often a part is away when a record was applied, so that it is applied again."""
    rereads: int = 1
    """How often consumers may go back under a new reign."""
    seeded: bool = False
    """Begins with marks and an answer of version 0."""
    cached: bool = False
    """Begins with version 1 acknowledged, published and cached."""
    overlapping: bool = False
    """Begins with the second server promoted and seen, and the first not cut off."""
    life: int = 1
    ttl: int = 99
    fault: Fault = Fault.ABSENT


def start(world: World) -> State:
    parts = world.partitions
    timeline = 0 if world.databases else UNTOLD
    hash_: Hash | tuple[()] = Hash(0, 0, 0, timeline) if world.seeded else ()
    entry: Entry | tuple[()] = Entry(0, FIRST, 0, 0, 0, world.ttl) if world.seeded else ()
    begun_with: tuple[Change, ...] = ()
    if world.cached:
        begun_with = (Change(1, 0, Stage.ACKNOWLEDGED, True, FIRST, timeline),)
        hash_ = Hash(0, 1, 1, timeline)
        entry = Entry(0, FIRST, 1, 1, 0, world.ttl)
    elif not parts:
        hash_ = Hash(0, 0, 0, timeline)
    empty = Store((), (), (), ((),) * parts, ((),) * parts)
    first = Store(hash_, entry, (), ((),) * parts, ((FIRST, 0),) * parts, (), timeline)
    none: tuple[Reign, ...] = ((),) * parts
    begun = (0,) * parts
    consumers = [Consumer(begun, begun, (FIRST,) * parts, none, ())] * bool(parts)
    consumers += [Consumer((NOWHERE,) * parts, begun, none, none, ())] * (
        bool(parts) * (world.consumers - 1)
    )
    second = Server(empty, ())
    if world.overlapping:
        made = Entry(0, SECOND, 0, 0, 0, world.ttl)
        second = Server(first._replace(entry=made, seen=(SECOND, 0)), SECOND)
    return State(
        now=0,
        servers=(Server(first, FIRST), second),
        primary=int(world.overlapping),
        epochs=1,
        promotions=int(world.overlapping),
        promoted=0,
        database=Database(timeline, 0, told=False),
        changes=begun_with,
        opened=(1,) * world.late_number,
        requests=(),
        proven=FIRST,
        lookout=(),
        relays=(Relay(False, ()),) * (world.relays if parts else 0),
        heart=Heart(0, 0, (), (), 0),
        topic=((),) * parts,
        consumers=tuple(consumers),
        owners=(0,) * parts,
        committed=(0,) * parts,
        cursor=2 * world.late_number,
        dropped=0,
        left=Left(
            world.requests,
            world.others,
            world.events,
            world.flushes,
            world.evictions,
            world.failovers,
            world.beats,
            world.deaths,
            world.kills,
            world.handovers,
            world.retries,
            world.rereads,
            world.databases,
        ),
    )
