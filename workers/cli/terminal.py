"""What reaches a terminal or a pipe: never a character that steers it, whoever wrote the text."""

from __future__ import annotations

import json
from typing import TypedDict

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.segment import Segment


class Plain(TypedDict):
    """How lines with ids and names go to the terminal: as they are."""

    markup: bool
    highlight: bool
    soft_wrap: bool


PLAIN: Plain = {"markup": False, "highlight": False, "soft_wrap": True}


def people(*, stderr: bool = False, width: int | None = None) -> Console:
    """A console for people. Names of users go to it as they are: it lets no control through."""
    console = Console(stderr=stderr, width=width)
    console.push_render_hook(_Harmless())
    return console


class _Harmless(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Printable(one) for one in renderables]


class _Printable:
    """What is inside, without C0 and C1 controls, direction marks, halves of characters."""

    def __init__(self, inner: ConsoleRenderable) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._inner, options):
            text = segment.text
            if segment.control or text.isprintable():
                yield segment
            else:
                kept = "".join(c for c in text if c == "\n" or c.isprintable())
                yield Segment(kept, segment.style)


def json_text(value: object, *, indent: int | None = None) -> str:
    """JSON for programs, that a person may look at too: what does not print is escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if text.isprintable():
        return text
    # Outside of its texts JSON has nothing to escape but the line breaks of an indent.
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def plural(number: int, one: str, many: str | None = None) -> str:
    """`1 view`, `2 views`, `2 entries`."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
