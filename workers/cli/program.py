"""What it prints as a command can be typed, or copied, as it stands."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

NAME = "context-engine"
COLUMNS = 76
"""Width of an example: help leaves 78 of 80, and a line that goes on ends in a mark."""
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


def help_text(text: str) -> str:
    """A docstring as help: paragraphs that flow, an example that can be copied."""
    told = []
    for paragraph in text.split("\n\n"):
        about, example, command = paragraph.partition("Example: ")
        flowing = typed(" ".join(about.split("\n")).strip())
        told += [flowing] if flowing else []
        if example:
            told.append(f"Example:\n\n{wrapped(' '.join(typed(command).split()))}")
    return "\n\n".join(told)


def wrapped(command: str, width: int = COLUMNS) -> str:
    """A command on lines of `width`, which a shell reads as the one line.

    It is broken at spaces: between arguments, and in a quoted one between the values of its JSON.
    """
    lines, line, mark = [], "", ""  # mark: the quotes that are open, outermost first
    for word in command.split(" "):
        if line and len(line) + 1 + len(word) > width and mark in ("", "'"):
            lines.append(line if mark else f"{line} \\")
            line = f"  {word}"
        else:
            line = f"{line} {word}" if line else word
        for quote in re.findall("[\"']", word):
            mark = mark.removesuffix(quote) if mark.endswith(quote) else mark + quote
    return "\n".join((*lines, line))
