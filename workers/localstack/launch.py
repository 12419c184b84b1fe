"""Runs one server so that it dies with its parent; started as a script, imports nothing of ours.

    python -I -S launch.py PARENT_PID SIGNAL UID GID COMMAND...

On Linux the kernel sends SIGNAL when the parent goes, however it goes, and this process becomes
the server. Elsewhere it stays between the two and watches the parent. UID -1 keeps the user.
"""

from __future__ import annotations

import ctypes  # here, and not where it is used: the other user may not reach our Python
import os
import signal
import subprocess
import sys
from types import FrameType

PR_SET_PDEATHSIG = 1
WATCH_SECONDS = 0.25


def become_user(uid: int, gid: int) -> None:
    """Drop to `uid` for good. Before the death signal is set: a change of user clears it."""
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def become_server(parent: int, death_signal: int, command: list[str]) -> None:
    """Ask the kernel for the signal, then turn into the server (Linux)."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:  # it went before the signal was asked for
        sys.exit(1)
    os.execv(command[0], command)  # noqa: S606  # a list of our own, no shell


def watch_server(parent: int, death_signal: int, command: list[str]) -> int:
    """Run the server, pass signals on, and end it when the parent is gone. Returns its code."""
    server = subprocess.Popen(command)  # noqa: S603  # a list of our own, no shell

    def pass_on(number: int, _frame: FrameType | None) -> None:
        server.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    while True:
        try:
            return server.wait(WATCH_SECONDS)
        except subprocess.TimeoutExpired:
            if os.getppid() != parent:
                server.send_signal(death_signal)


def main(argv: list[str]) -> int:
    parent, death_signal, uid, gid = (int(word) for word in argv[:4])
    command = argv[4:]
    if uid >= 0:
        become_user(uid, gid)
    if sys.platform == "linux":
        become_server(parent, death_signal, command)
    return watch_server(parent, death_signal, command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
