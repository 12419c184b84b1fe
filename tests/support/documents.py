"""The documentation as the tests read it: its snippets, their expected output, its commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
    ]
)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXCERPT = re.compile(r"# (\S+\.py)\n")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block, and the text of the one that follows it."""

    document: str
    line: int
    language: str
    text: str
    then: str | None
    """What a `text` block right after it holds: the output to expect."""

    @property
    def name(self) -> str:
        return f"{self.document}:{self.line}"


def blocks(*languages: str) -> Iterator[Block]:
    """Every fenced block in one of these languages, document by document."""
    for document in DOCUMENTS:
        text = document.read_text()
        found = list(FENCE.finditer(text))
        for number, match in enumerate(found):
            following = found[number + 1] if number + 1 < len(found) else None
            if match[1] not in languages:
                continue
            expected = None
            if following is not None and following[1] == "text":
                between = text[match.end() : following.start()]
                expected = following[2] if len(between.strip().splitlines()) <= 1 else None
            yield Block(
                document=str(document.relative_to(ROOT)),
                line=text[: match.start()].count("\n") + 1,
                language=match[1],
                text=match[2],
                then=expected,
            )


def programs() -> list[Block]:
    """The Python blocks that stand alone."""
    return [block for block in blocks("python") if not EXCERPT.match(block.text)]


def excerpts() -> list[tuple[Block, Path, str]]:
    """The Python blocks that quote a file, which their first line names."""
    return [
        (block, ROOT / match[1], block.text[match.end() :])
        for block in blocks("python")
        if (match := EXCERPT.match(block.text)) is not None
    ]


@dataclass(frozen=True, slots=True)
class CommandLine:
    """One `context-engine …` of a shell block."""

    place: str
    words: list[str]
    """Its arguments."""
    comment: str
    """What follows a `#`: `not_found` where it is refused."""
    into: str | None = None
    """The file that its output goes to, by `>`."""

    @property
    def name(self) -> str:
        return f"{self.place} {' '.join(self.words[:2])}"


def command_lines() -> list[CommandLine]:
    """Every `context-engine …` in a shell block, alone or after a pipe."""
    found = []
    for block in blocks("sh"):
        for line in _lines(block.text):
            words = shlex.split(line, comments=True)
            while "|" in words:
                words = words[words.index("|") + 1 :]
            if words and Path(words[0]).name == "context-engine":
                comment = line.partition("  # ")[2].strip()
                into = words[words.index(">") + 1] if ">" in words else None
                own = words[1 : words.index(">")] if into is not None else words[1:]
                found.append(CommandLine(block.name, own, comment, into))
    return found


def named_commands() -> list[tuple[str, list[str]]]:
    """Every `context-engine …` within a sentence: where it stands, and its words."""
    inline = re.compile(r"`(?:\.venv/bin/)?context-engine ([^`]+)`")
    return [
        (document.name, shlex.split(match[1]))
        for document in DOCUMENTS
        for match in inline.finditer(FENCE.sub("", document.read_text()))
    ]


def _lines(text: str) -> Iterator[str]:
    """Lines as the shell takes them: a quotation may go over several."""
    open_line = ""
    for line in text.replace("\\\n", " ").splitlines():
        open_line = f"{open_line}\n{line}" if open_line else line
        try:
            shlex.split(open_line, comments=True)
        except ValueError:
            continue
        yield open_line
        open_line = ""
    assert not open_line, f"a quotation without an end: {open_line}"
