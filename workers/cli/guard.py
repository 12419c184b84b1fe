"""How a command ends that is interrupted, or whose output nobody takes.

Imports next to nothing: it stands before the imports of the commands, which take a second.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import NoReturn

CANNOT_WRITE = 74
"""Exit code where the output has no room or no reader, after sysexits.h."""
INTERRUPTED = 130
"""Exit code of who is told to stop by Ctrl-C."""
NO_OUTPUT = frozenset({errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EBADF})


def guarded(command: Callable[[], None]) -> None:
    """Runs a command; Ctrl-C, and an output that takes nothing, end it with a code and a line."""
    try:
        try:
            command()
        finally:
            sys.stdout.flush()  # here, where what fails can be told
    except KeyboardInterrupt:
        _leave(INTERRUPTED)
    except OSError as error:
        if error.filename is not None or error.errno not in NO_OUTPUT:
            raise
        if error.errno != errno.EPIPE:  # a reader that had enough is no news
            reason = os.strerror(error.errno)
            print(f"the output cannot be written: {reason}", file=sys.stderr)
        _leave(CANNOT_WRITE)


def _leave(code: int) -> NoReturn:
    """Exits; what could not be written is not tried again, which would tell a second time."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    raise SystemExit(code) from None
