"""How this program was called: what it prints as a command can be typed as it stands."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

NAME = "context-engine"
_COMMAND = re.compile(rf"\b{NAME}(?= [a-z])")


def program() -> str:
    """The name alone where the shell finds this very program by it, else what leads to it."""
    called = Path(sys.argv[0])
    if called.parts[-2:] == ("workers", "__main__.py"):
        return f"{_short(Path(sys.executable))} -m workers"
    if called.name != NAME:  # run by something else: a test, an embedder
        return NAME
    found = shutil.which(NAME)
    if found is not None and Path(found).absolute() == called.absolute():
        return NAME
    return _short(called)


def _short(path: Path) -> str:
    """Relative where it lies below the current folder."""
    whole = path.absolute()
    try:
        return str(whole.relative_to(Path.cwd()))
    except ValueError:
        return str(whole)


def typed(text: str) -> str:
    """`text` with this program's commands as they can be typed here."""
    return _COMMAND.sub(lambda _: program(), text)
