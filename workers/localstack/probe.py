"""Does a server answer? Each probe speaks one message of the server's own protocol.

An open port proves little: PostgreSQL listens while it still recovers, a broker before it serves.
Every probe is False for "not yet" and never raises for a refused or dropped connection.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable

PROBE_SECONDS = 1.0
POSTGRES_PROTOCOL = 3 << 16
API_VERSIONS = 18

Probe = Callable[[str, int], Awaitable[bool]]


async def kafka_answers(host: str, port: int) -> bool:
    """ApiVersions v0, correlation id 7: what every client asks first."""
    body = struct.pack(">hhih", API_VERSIONS, 0, 7, -1)
    reply = await _ask(host, port, struct.pack(">i", len(body)) + body, 8)
    return len(reply) == 8 and struct.unpack(">i", reply[4:])[0] == 7


async def valkey_answers(host: str, port: int) -> bool:
    """PING. A demand for the password is an answer too; `-LOADING` is not."""
    reply = await _ask(host, port, b"*1\r\n$4\r\nPING\r\n", 5)
    return reply in (b"+PONG", b"-NOAU")


async def postgres_answers(host: str, port: int) -> bool:
    """A start-up message: `R` (prove who you are) says ready, `E` that it still starts."""
    body = struct.pack(">i", POSTGRES_PROTOCOL) + b"user\0postgres\0database\0postgres\0\0"
    return await _ask(host, port, struct.pack(">i", len(body) + 4) + body, 1) == b"R"


async def _ask(host: str, port: int, message: bytes, size: int) -> bytes:
    """Send `message`, return the first `size` bytes of the reply, or b"" if there is none."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(message)
                return await reader.readexactly(size)
            finally:
                writer.close()
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return b""
