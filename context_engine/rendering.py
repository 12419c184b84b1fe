"""Contexts as JSON: each section is written once, and a cached one is never parsed again.

A section's text is canonical (keys in order, compact, UTF-8), so that the content hash is taken
over the very texts that travel. The surface is cached as its sections' texts, which the next turn
of a dialogue puts into its own context as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256

from pydantic import JsonValue, TypeAdapter

from context_engine.errors import NotFound
from context_engine.keys import Tag
from context_engine.models.base import Contract
from context_engine.models.context import UNHASHED, AgentContext, Source, Unresolved
from context_engine.sections.summary import surface_lines
from context_engine.sections.surface import Surface, wire_name

ORDER = tuple(wire_name(name) for name in AgentContext.model_fields)
"""The fields of a context, in order."""

_UNHASHED = frozenset(wire_name(name) for name in UNHASHED)
_SURFACE = tuple(
    wire_name(name) for name in Surface.model_fields if name not in {"trace", "absent"}
)
_UNRESOLVED = TypeAdapter(tuple[Unresolved, ...])

NOTHING = frozenset({"null", "[]", "{}"})
"""Texts of a section without content."""


def canonical(value: JsonValue) -> str:
    """The one JSON text of `value`. It holds no line end."""
    return json.dumps(
        value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    )


def written(section: Contract | None) -> str:
    """A section's text; `null` for one without content."""
    return canonical(section.model_dump(mode="json")) if section is not None else "null"


@dataclass(frozen=True, slots=True)
class Rendered:
    """A surface, written: what is cached, and put into every context over it."""

    sections: Mapping[str, str]
    """Text of each section by its name on the wire."""
    trace: Mapping[str, Mapping[str, JsonValue]]
    """What became of each section."""
    lines: tuple[str, ...]
    """The summary's lines, but for the dialogue's."""
    locale: str | None
    """The request's, else the user's own."""
    absent: tuple[Unresolved, ...]
    told: frozenset[Tag]
    """Tags of it that may leave the engine."""
    read_by: str = ""
    """Context id of the build that read it: its evidence has the rules that denied."""

    @property
    def payload(self) -> bytes:
        """As it is cached: a line for what `loaded` must know, then one for each section."""
        head = {
            "trace": {name: dict(section) for name, section in self.trace.items()},
            "lines": list(self.lines),
            "locale": self.locale,
            "absent": _UNRESOLVED.dump_python(self.absent, mode="json"),
            "told": sorted(self.told),
            "readBy": self.read_by,
        }
        return "\n".join((canonical(head), *self.sections.values())).encode()

    @classmethod
    def loaded(cls, payload: bytes) -> Rendered:
        """The surface that was cached as `payload`."""
        head, *texts = payload.decode().split("\n")
        known = json.loads(head)
        return cls(
            sections=dict(zip(_SECTIONS, texts, strict=True)),
            trace=known["trace"],
            lines=tuple(known["lines"]),
            locale=known["locale"],
            absent=_UNRESOLVED.validate_python(known["absent"]),
            told=frozenset(map(Tag, known["told"])),
            read_by=str(known["readBy"]),
        )


_SECTIONS = (*_SURFACE, "table")
"""The sections of a surface, in the order of their lines in the cache."""


def render(
    surface: Surface, locale: str | None, told: frozenset[Tag], read_by: str = ""
) -> Rendered:
    """Writes `surface` for a request with that `locale`.

    `told`: its tags that may leave; `read_by`: the context id of the build that read it.
    """
    dumped: dict[str, JsonValue] = surface.model_dump(mode="json", exclude={"absent"})
    traced = dumped.pop("trace")
    texts = {name: canonical(dumped[name]) for name in _SURFACE}
    tables = dumped["tables"]
    texts["table"] = canonical(tables[0]) if isinstance(tables, list) and tables else "null"
    trace = {
        name: {**section, "chars": size_of(texts[name])}
        for name, section in (traced.items() if isinstance(traced, dict) else ())
        if isinstance(section, dict)
    }
    shown = locale or surface.user.locale
    lines = tuple(surface_lines(surface, shown))
    return Rendered(texts, trace, lines, shown, surface.absent, told, read_by)


def size_of(text: str) -> int:
    """Size of a section as JSON, in characters; 0 for one without content."""
    return 0 if text in NOTHING else len(text)


def hash_of(texts: Mapping[str, str], session: str) -> str:
    """SHA-256 of a context's canonical content, hex; `session`: its text without the last hash.

    Leaves out `UNHASHED`: equal hashes, equal content.
    """
    content = {name: text for name, text in texts.items() if name not in _UNHASHED}
    content["session"] = session
    return sha256(_object(sorted(content.items())).encode()).hexdigest()


def content_hash(context: Mapping[str, JsonValue]) -> str:
    """`contextHash` as anyone can compute it again; `context` is an `AgentContext`'s JSON."""
    session = context.get("session")
    if isinstance(session, dict):
        session = {name: value for name, value in session.items() if name != "lastContextHash"}
    return hash_of({name: canonical(v) for name, v in context.items()}, canonical(session))


def packed(context_id: str, texts: Mapping[str, str]) -> bytes:
    """A context as the cache keeps it: its id, a line end, its JSON but for source and age."""
    body = _object((name, texts[name]) for name in ORDER if name not in {"source", "ageMs"})
    return f"{context_id}\n{body}".encode()


def answered(payload: bytes, source: Source, age_ms: int) -> tuple[str, bytes]:
    """What `packed` made, as (context id, JSON of the `AgentContext`).

    The body is not parsed: a cached answer costs a copy.
    """
    context_id, _, body = payload.partition(b"\n")
    head = b'{"source":"%s","ageMs":%d,' % (source.encode(), age_ms)
    return context_id.decode(), head + body[1:]


_DENIED = b"denied\n"
"""Stands where an answer has its context id; no id is this word."""


def denied(kind: str, id: str) -> bytes:
    """A denial, as the cache keeps it in the place of an answer."""
    return _DENIED + canonical([kind, id]).encode()


def denial(payload: bytes) -> NotFound | None:
    """What `denied` made, as the error that it was; None for an answer."""
    if not payload.startswith(_DENIED):
        return None
    kind, id = json.loads(payload[len(_DENIED) :])
    return NotFound(kind, id)


def _object(members: Iterable[tuple[str, str]]) -> str:
    """A JSON object of texts; the names need no escapes."""
    return "{" + ",".join(f'"{name}":{text}' for name, text in members) + "}"
