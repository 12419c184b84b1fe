"""One `dev` in a folder: a lock that the kernel frees when its holder is gone, however it went."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.localstack.errors import LocalStackError


@contextmanager
def sole(lock: Path) -> Iterator[None]:
    """Holds `lock` for the block, with this process's id in it.

    Raises `LocalStackError`, which names the other process, where one holds it already.
    """
    import fcntl  # not on every platform, and neither is the stack

    lock.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(lock, os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = file.read().strip() or "unknown"
            raise LocalStackError(
                f"dev is running here already, pid {holder}: use it, stop it, or start another"
                " in a folder of its own"
            ) from None
        file.truncate()
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
