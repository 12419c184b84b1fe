"""The name that was meant, and those there are: what an error says after "no such"."""

from __future__ import annotations

import json
from collections.abc import Iterable
from difflib import get_close_matches

MOST = 20
"""Most names in one message."""
CHARS = 60
"""Longest name in one: users choose them."""


def nearest(given: str, known: Iterable[str]) -> str | None:
    """Which of `known` looks most like `given`; None where none does."""
    found = get_close_matches(given[:CHARS], list(known), n=1)
    return found[0] if found else None


def among(given: object, known: Iterable[str]) -> str:
    """`did you mean "b"? there are "a", "b"`: bounded, and quoted so that names stay data."""
    names = list(known)
    if not names:
        return "there are none"
    near = nearest(given, names) if isinstance(given, str) else None
    meant = f"did you mean {_quoted(near)}? " if near is not None else ""
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return f"{meant}there are {', '.join(map(_quoted, names[:MOST]))}{more}"


def _quoted(name: str) -> str:
    text = json.dumps(name, ensure_ascii=False)
    return text if len(text) <= CHARS else f'{text[: CHARS - 1]}…"'
