"""Three Valkeys that share the slots, on this machine; each may have a replica."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from redis.asyncio import Redis
from redis.crc import key_slot

from context_engine import keys
from workers.localstack import Valkey
from workers.localstack.part import HOST, free_port

BOUND_SECONDS = 20.0
SLOTS = 16_384
PASSWORD = "secret"


class ClusterNode(Valkey):
    """One node. Its own port for the others, since the usual one may be beyond all ports."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, PASSWORD)
        self.bus_port = 0

    def more(self) -> Mapping[str, str]:
        self.bus_port = self.bus_port or free_port()
        return {
            "cluster-enabled": "yes",
            "cluster-port": str(self.bus_port),
            "cluster-node-timeout": "2000",
            "cluster-require-full-coverage": "no",
            "cluster-allow-replica-migration": "no",
            "cluster-replica-validity-factor": "0",
            "masterauth": PASSWORD,
            "repl-diskless-sync-delay": "0",
        }


@dataclass
class Cluster:
    """The nodes, and a client for each alone."""

    directory: Path
    nodes: list[ClusterNode] = field(default_factory=list)
    clients: list[Redis] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Of any node."""
        return self.nodes[0].url

    async def add(self) -> int:
        """Another node, with no slots; its number."""
        node = ClusterNode(self.directory / str(len(self.nodes)))
        await node.start()
        client = Redis.from_url(node.url, protocol=2)
        self.nodes.append(node)
        self.clients.append(client)
        await client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", len(self.nodes))
        if len(self.nodes) > 1:
            first = self.nodes[0]
            await client.execute_command("CLUSTER", "MEET", HOST, first.port, first.bus_port)
        return len(self.nodes) - 1

    async def id_of(self, number: int) -> str:
        return str((await self.clients[number].execute_command("CLUSTER", "MYID")).decode())

    async def replicate(self, number: int, primary: int) -> None:
        """Makes a node without slots the replica of another, with all that it has."""
        id = await self.id_of(primary)

        async def asked() -> bool:
            try:
                await self.clients[number].execute_command("CLUSTER", "REPLICATE", id)
            except Exception:  # noqa: BLE001 - it has not heard of that node yet
                return False
            return True

        await until(asked)
        await until(lambda: self._follows(number))

    async def _follows(self, number: int) -> bool:
        return (await self.clients[number].info("replication"))["master_link_status"] == "up"

    async def agreed(self, numbers: Sequence[int] | None = None) -> None:
        """Until every node knows all the others and who has which slots."""
        chosen = range(len(self.nodes)) if numbers is None else numbers
        await until(lambda: self._agree(chosen))

    async def _agree(self, numbers: Sequence[int]) -> bool:
        views = []
        for number in numbers:
            info = (await self.clients[number].execute_command("CLUSTER", "INFO")).split()
            if not {b"cluster_state:ok", b"cluster_known_nodes:%d" % len(self.nodes)} <= {*info}:
                return False
            slots = await self.clients[number].execute_command("CLUSTER", "SLOTS")
            views.append(sorted((first, last, node[1]) for first, last, node, *_ in slots))
        return all(view == views[0] for view in views)

    @contextmanager
    def standing_still(self, number: int) -> Iterator[None]:
        """A node that takes connections and says nothing. For less than what makes it fail."""
        pid = self.nodes[number].pid
        assert pid is not None
        os.killpg(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(pid, signal.SIGCONT)

    def owner(self, name: str) -> int:
        """The number of the primary that has a key at the start."""
        return min(key_slot(name.encode()) * 3 // SLOTS, 2)

    def workspace_at(self, number: int, start: str = "w") -> str:
        """The id of a workspace whose slot that primary has at the start."""
        names = (f"{start}{i}" for i in range(1_000))
        return next(one for one in names if self.owner(keys.marks_name(one)) == number)

    async def empty(self) -> None:
        """Everything of every primary is lost."""
        for client in self.clients:
            if (await client.info("replication"))["role"] == "master":
                await client.flushall()


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Nodes announce to nobody what they know."""
    async with asyncio.timeout(BOUND_SECONDS):
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@asynccontextmanager
async def cluster_in(directory: Path) -> AsyncIterator[Cluster]:
    """Three primaries."""
    made = Cluster(directory)
    try:
        for _ in range(3):
            await made.add()
        for number, client in enumerate(made.clients):
            first, beyond = -(-SLOTS * number // 3), -(-SLOTS * (number + 1) // 3)
            await client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, beyond - 1)
        await made.agreed()
        yield made
    finally:
        for client in made.clients:
            await client.aclose()
        for node in made.nodes:
            await node.stop()


@dataclass(frozen=True)
class Move:
    """A slot on its way from one primary to another, step by step."""

    cluster: Cluster
    slot: int
    source: int
    target: int

    async def whole(self) -> None:
        await self.begin()
        await self.carry()
        await self.end()

    async def begin(self) -> None:
        """From here on the source sends on what it has not."""
        source, target = [await self.cluster.id_of(n) for n in (self.source, self.target)]
        await self._set(self.target, "IMPORTING", source)
        await self._set(self.source, "MIGRATING", target)

    async def carry(self, *names: str) -> None:
        """These keys, or all that are left."""
        client, node = self.cluster.clients[self.source], self.cluster.nodes[self.target]
        found = names or await client.execute_command("CLUSTER", "GETKEYSINSLOT", self.slot, 10_000)
        if found:
            await client.execute_command(
                *("MIGRATE", HOST, node.port, "", 0, 5_000, "REPLACE", "AUTH", PASSWORD),
                *("KEYS", *found),
            )

    async def end(self) -> None:
        target = await self.cluster.id_of(self.target)
        for number in (self.target, self.source):
            await self._set(number, "NODE", target)
        await self.cluster.agreed()

    async def _set(self, number: int, what: str, id: str) -> None:
        await self.cluster.clients[number].execute_command(
            "CLUSTER", "SETSLOT", self.slot, what, id
        )
