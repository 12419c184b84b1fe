"""Commands as the protocol writes them."""

from __future__ import annotations

from redis.asyncio.connection import Connection

from context_engine.adapters.redis.batch import Command
from context_engine.adapters.redis.link import packed


def test_commands_are_written_as_the_client_writes_them() -> None:
    """Texts of any length and letters, bytes, numbers; a name of two words is two."""
    commands: list[Command] = [
        ("EVALSHA", "abc", 2, "é:{w}", b"\x00\xff\r\n", 1.5, -3, "", b"p" * 20_000),
        ("SCRIPT LOAD", "return 1\nend"),
        ("PING",),
    ]
    assert packed(commands) == b"".join(Connection().pack_commands(commands))
    assert packed([]) == b""
