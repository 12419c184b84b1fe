"""The heuristic summary of what is older than the tail. Written down, so that it can be predicted:

1. It takes from the latest of the older messages, back in time, at most `TAKEN` of them.
2. Of each it keeps the first sentence, at most `EXCERPT_CHARS` characters, quoted, on one line.
3. It stops before the text would be longer than the budget; the latest is cut to fit, if it must.
4. It shows them oldest first, each with its role; the ids of those it took from go along.

Tool results are never taken: whether they may be shown is decided anew for every user and turn.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from context_engine.facts import MessageFacts
from context_engine.wording import Language, clean, phrase, quoted

TAKEN = 12
"""Older messages the summary takes from, at most."""

EXCERPT_CHARS = 240
"""Longest excerpt of one message, in characters."""

QUOTES = 2
"""Characters of the quotes around an excerpt."""

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
        start = f"- {message.role}: "
        room = EXCERPT_CHARS if lines else min(EXCERPT_CHARS, left - len(start) - QUOTES - 1)
        text = excerpt(message.content, room)
        if not text:
            continue
        line = start + text
        left -= len(line) + 1
        if left < 0:
            break
        lines.append((line, message.id))
    if not lines:
        return "", ()
    lines.reverse()
    return "\n".join((heading, *(line for line, _ in lines))), tuple(id for _, id in lines)


def excerpt(content: str, limit: int = EXCERPT_CHARS) -> str:
    """The first sentence of a message as quoted data: one line, `limit` characters within quotes.

    Empty where the message has nothing to show.
    """
    text = clean(content[: 4 * EXCERPT_CHARS])
    found = _SENTENCE.match(text)
    return quoted(found.group(0) if found else text, limit) if text and limit > 0 else ""
