"""What there is in the model: small immutable tuples, `()` for what is not there.

One answer depends on one thing, whose versions are the numbers of its changes: 0 is "absent".
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Reign: TypeAlias = tuple[int, ...]
"""(`run_id`, `master_replid`) as numbers; () for nobody."""

FIRST: Reign = (0, 0)
SECOND: Reign = (1, 1)
NEVER: Reign = (9, 9)
"""Of a partition that was never proven."""


NOWHERE = 99
"""The position of who does not have a partition."""

UNTOLD = -1
"""In place of the database's timeline, where that is not named."""


class Hash(NamedTuple):
    """A workspace's hash of marks; one tag matters."""

    epoch: int
    clock: int
    mark: int
    timeline: int = UNTOLD
    """Of the database, as a mark or a fill named it."""


class Entry(NamedTuple):
    """A stored answer, or a session's derived text."""

    epoch: int
    reign: Reign
    clock: int
    version: int
    built: int
    expires: int
    tagged: bool = True


class Live(NamedTuple):
    ends: int
    reign: Reign


class Store(NamedTuple):
    """What one server holds."""

    hash: Hash | tuple[()]
    entry: Entry | tuple[()]
    text: Entry | tuple[()]
    live: tuple[Live | tuple[()], ...]
    applied: tuple[tuple[Reign, int] | tuple[()], ...]
    """Under whom each partition was proven last, and up to which offset."""
    seen: tuple[Reign, int] | tuple[()] = ()
    """Who reigns, and since when that is known; noted by whoever asks who was promoted."""
    timeline: int = UNTOLD
    """Of the database, as a heartbeat told it."""


class Database(NamedTuple):
    timeline: int
    since: int
    """When it was failed over to this one."""
    told: bool
    """A mark or a fill has named this one to the store."""


class Server(NamedTuple):
    store: Store
    reign: Reign
    """() while it is a replica, or cut off: then it answers nobody."""


class Stage:
    """Of a change."""

    COMMITTED, MARKED, ACKNOWLEDGED = range(3)


class Change(NamedTuple):
    id: int
    """Its number in the outbox, given before the commit."""
    at: int
    stage: int
    published: bool
    reign: Reign
    """Of the server that its writer marked."""
    timeline: int
    """That it was committed in."""
    lost: bool = False
    """The standby that was promoted did not have it."""


class Moment(NamedTuple):
    epoch: int
    reign: Reign
    clock: int
    at: int


class Request(NamedTuple):
    step: int
    need: int
    """The oldest version that may answer it."""
    live: Reign
    """Whose marks were proven after it arrived."""
    moment: Moment | tuple[()]
    version: int
    older: bool
    """The flight under way read its clock before this request arrived."""
    whole: bool
    """What lost commits made may not answer it."""
    timeline: int = UNTOLD
    """Of the database that it read."""


class Record(NamedTuple):
    """On the change topic: a change, or with version 0 a heartbeat."""

    version: int
    at: int
    reign: Reign
    timeline: int = UNTOLD


class Relay(NamedTuple):
    sent: bool
    held: tuple[int, ...]
    """Versions whose rows it has locked."""


class Heart(NamedTuple):
    step: int
    at: int
    reign: Reign
    waits: tuple[int, ...]
    place: int
    timeline: int = UNTOLD


class Hand(NamedTuple):
    """A record that a consumer has fetched."""

    place: int
    offset: int
    step: int
    back: bool = False
    """It was sent back by this record, and has read nothing since."""


class Consumer(NamedTuple):
    positions: tuple[int, ...]
    since: tuple[int, ...]
    """Where it began to read each partition."""
    under: tuple[Reign, ...]
    """The reign under which all of a partition was applied; () where it must ask."""
    marks: tuple[Reign, ...]
    """Under whom it marked since it began: () for none yet, `NEVER` for several."""
    hand: Hand | tuple[()]


class Left(NamedTuple):
    """How often what is bounded may happen still."""

    requests: int
    others: int
    events: int
    flushes: int
    evictions: int
    failovers: int
    beats: int
    deaths: int
    kills: int
    handovers: int
    retries: int
    rereads: int
    databases: int


class State(NamedTuple):
    now: int
    servers: tuple[Server, Server]
    primary: int
    epochs: int
    """Made so far."""
    promotions: int
    promoted: int
    """When the primary was, while the one before it answers still."""
    database: Database
    changes: tuple[Change, ...]
    opened: tuple[int, ...]
    """Numbers of transactions that are not committed yet; of marks that came before a commit."""
    requests: tuple[Request, ...]
    proven: Reign
    """Under whom all is taken for applied, where no consumer is modelled."""
    lookout: tuple[Reign, int] | tuple[()]
    """What the workers last saw proven: whose marks, and until when."""
    relays: tuple[Relay, ...]
    heart: Heart
    topic: tuple[tuple[Record, ...], ...]
    consumers: tuple[Consumer, ...]
    owners: tuple[int, ...]
    committed: tuple[int, ...]
    cursor: int
    """The number up to which rows were published, where a fault goes by numbers."""
    dropped: int
    """The newest version for which derived text was deleted."""
    left: Left
