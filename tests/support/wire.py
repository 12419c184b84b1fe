"""A wire between a client and a server: it takes its time, and breaks where a test has it break."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Wire:
    """Passes bytes on, each way, for every connection."""

    target: tuple[str, int]
    port: int = 0
    delay: float = 0.0
    """Seconds that replies are under way."""
    cut_after: int | None = None
    """Bytes of replies that come through yet; then every connection is cut, once."""
    cuts: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self.target)
        ways = [
            asyncio.create_task(self._pass(reader, back)),
            asyncio.create_task(self._answer(there, writer)),
        ]
        self._tasks.update(ways)
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self._tasks.difference_update(ways)
            writer.close()
            back.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if self.delay:
                await asyncio.sleep(self.delay)
            if self.cut_after is not None:
                data, self.cut_after = data[: self.cut_after], self.cut_after - len(data)
                if self.cut_after <= 0:
                    self.cut_after, self.cuts = None, self.cuts + 1
                    writer.write(data)
                    await writer.drain()
                    return
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def wire_to(host: str, port: int) -> AsyncIterator[Wire]:
    """On a free port of this machine."""
    wire = Wire((host, port))
    server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        server.close()
        for task in [*wire._tasks]:
            task.cancel()
        await asyncio.sleep(0)
