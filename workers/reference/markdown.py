"""What the pages share: tables, and text that is safe in a cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MADE = "<!-- Made from the code by `make schema`. Change the code, not this file. -->"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(cell, line)) + " |" for line in lines)


def cell(text: str) -> str:
    """One line, without what would end the cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def paragraph(doc: str | None) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((doc or "").strip().split("\n\n")[0].split())


def page(title: str, *parts: str) -> str:
    """A whole page, ending in one newline."""
    return "\n\n".join([MADE, f"# {title}", *(part.strip("\n") for part in parts if part)]) + "\n"
