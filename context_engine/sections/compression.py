"""The heuristic summary of what is older than the tail. Written down, so that it can be predicted:

1. It takes from the latest of the older messages, back in time, at most `TAKEN` of them.
2. Of each it keeps the first sentence or line, at most `EXCERPT_CHARS` characters, on one line.
3. It stops before the text would be longer than the budget.
4. It shows them oldest first, each with its role; the ids of those it took from go along.

Tool results are never taken: whether they may be shown is decided anew for every user and turn.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from context_engine.facts import MessageFacts
from context_engine.wording import Language, bounded, clean, phrase

TAKEN = 12
"""Older messages the summary takes from, at most."""

EXCERPT_CHARS = 240
"""Longest excerpt of one message, in characters."""

_SENTENCE = re.compile(r"^.{20,}?[.!?。！？](?=\s|$|[^\d\w])")


def compress(
    older: Sequence[MessageFacts], budget: int, language: Language
) -> tuple[str, tuple[str, ...]]:
    """(summary, ids of the messages it was taken from), within `budget` characters."""
    heading = phrase("earlier", language)
    left = budget - len(heading)
    lines: list[tuple[str, str]] = []
    for message in reversed(older):
        if len(lines) == TAKEN:
            break
        text = excerpt(message.content)
        if not text:
            continue
        line = f"- {message.role}: {text}"
        left -= len(line) + 1
        if left < 0:
            break
        lines.append((line, message.id))
    if not lines:
        return "", ()
    lines.reverse()
    return "\n".join((heading, *(line for line, _ in lines))), tuple(id for _, id in lines)


def excerpt(content: str) -> str:
    """The first sentence of a message, on one line, bounded."""
    text = clean(content)
    found = _SENTENCE.match(text)
    return bounded(found.group(0) if found else text, EXCERPT_CHARS)
