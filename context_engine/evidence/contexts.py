"""Two contexts, section by section: what appeared, went and changed, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue, TypeAdapter, ValidationError

from context_engine.evidence.denials import Denied
from context_engine.evidence.diff import Change, Kind, diff
from context_engine.models.base import JsonObject
from context_engine.models.context import UNHASHED, TraceSection
from context_engine.rendering import ORDER
from context_engine.sections.surface import wire_name

HEAD = ("schemaVersion", "scopeKey")
"""Content that says of which kind and for whom a context is, apart from its sections."""

_NO_CONTENT = {wire_name(name) for name in UNHASHED} | set(HEAD)
_TRACE = TypeAdapter(TraceSection)

COORDINATES = {
    "table": "tableIds", "tables": "tableIds", "relations": "tableIds", "view": "viewId",
    "project": "projectId", "task": "taskId", "team": "teamId",
    "organization": "organizationId", "workflow": "workflowId", "conversation": "conversationId",
}  # fmt: skip
"""The coordinate that a section follows from."""

KINDS = {"tables": ("table", "rows"), "table": ("table", "rows"), "relations": ("table",),
         "view": ("view", "rows", "table")}  # fmt: skip
"""What denials of a section speak of, where that is not its own name."""


@dataclass(frozen=True, slots=True)
class SectionDiff:
    """How one section differs. `why` is for everyone, `denials` for operators."""

    name: str
    kind: Kind
    changes: tuple[Change, ...]
    before: TraceSection | None
    after: TraceSection | None
    why: tuple[str, ...]
    denials: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ContextDiff:
    """How two contexts differ; equal content has no sections here."""

    head: tuple[Change, ...]
    sections: tuple[SectionDiff, ...]


def compare(
    old: JsonObject,
    new: JsonObject,
    denials: tuple[Sequence[Denied], Sequence[Denied]] = ((), ()),
) -> ContextDiff:
    """`old` and `new` are `AgentContext`s as JSON; `denials`: of each, where an operator looks.

    Works on JSON, so that evidence of other versions of the contracts can be read: sections that
    this version does not know come last.
    """
    names = (*ORDER, *sorted({*old, *new} - set(ORDER)))
    sections = [
        _section(name, changes, old, new, denials)
        for name in names
        if name not in _NO_CONTENT and (changes := _changes(name, old, new))
    ]
    head = [change for name in HEAD for change in diff(old.get(name), new.get(name), (name,))]
    return ContextDiff(tuple(head), tuple(sections))


def _changes(name: str, old: JsonObject, new: JsonObject) -> tuple[Change, ...]:
    """Differences of one section. `table` repeats the first of `tables`, so its id is enough."""
    before, after = old.get(name), new.get(name)
    if name == "table" and _id(before) == _id(after):
        return ()
    if name == "session":
        before, after = _without_last_hash(before), _without_last_hash(after)
    return diff(before, after)


def _id(value: JsonValue) -> JsonValue:
    return value.get("id") if isinstance(value, dict) else None


def _without_last_hash(session: JsonValue) -> JsonValue:
    """What the content hash leaves out is no content."""
    if not isinstance(session, dict):
        return session
    return {name: one for name, one in session.items() if name != "lastContextHash"}


def _section(
    name: str,
    changes: tuple[Change, ...],
    old: JsonObject,
    new: JsonObject,
    denials: tuple[Sequence[Denied], Sequence[Denied]],
) -> SectionDiff:
    before, after = _traced(old, name), _traced(new, name)
    return SectionDiff(
        name=name,
        kind=_kind(old.get(name), new.get(name)),
        changes=changes,
        before=before,
        after=after,
        why=tuple(_why(name, before, after, old, new)),
        denials=tuple(_rules(name, *denials)),
    )


def _kind(old: JsonValue, new: JsonValue) -> Kind:
    """Of a section as a whole: an empty one is not there."""
    had, has = old not in (None, [], {}, ""), new not in (None, [], {}, "")
    return "changed" if had == has else "appeared" if has else "went"


def _traced(context: JsonObject, name: str) -> TraceSection | None:
    trace = context.get("trace")
    sections = trace.get("sections") if isinstance(trace, dict) else None
    found = sections.get(name) if isinstance(sections, dict) else None
    try:
        return _TRACE.validate_python(found) if found is not None else None
    except ValidationError:
        return None


def _why(
    name: str,
    before: TraceSection | None,
    after: TraceSection | None,
    old: JsonObject,
    new: JsonObject,
) -> Iterator[str]:
    """What the two traces say of it, in words that an agent may read as well."""
    was, now = _state(before), _state(after)
    if was != now:
        yield f"{was} before, {now} now"
    elif after is not None:
        yield f"{now} in both"
    coordinate = COORDINATES.get(name)
    for word, context in (("before", old), ("now", new)):
        if coordinate in _inherited(context):
            yield f"{coordinate} inherited from the session {word}"
        if coordinate is not None and coordinate in _unresolved(context):
            yield f"{coordinate} asked for and not found {word}"


def _state(section: TraceSection | None) -> str:
    return f"{section.status} ({section.reason})" if section is not None else "not in the trace"


def _inherited(context: JsonObject) -> set[str]:
    trace = context.get("trace")
    found = trace.get("inherited") if isinstance(trace, dict) else None
    return {one for one in found if isinstance(one, str)} if isinstance(found, list) else set()


def _unresolved(context: JsonObject) -> set[str]:
    found = context.get("unresolved")
    listed = found if isinstance(found, list) else []
    return {str(one.get("coordinate")) for one in listed if isinstance(one, dict)}


def _rules(name: str, old: Sequence[Denied], new: Sequence[Denied]) -> Iterator[str]:
    kinds = KINDS.get(name, (name,))
    before, after = _of(kinds, old), _of(kinds, new)
    for what, rule in after:
        word = "denied in both" if (what, rule) in before else "denied now"
        yield f"{what} {word}: {rule}"
    for what, rule in before:
        if (what, rule) not in after:
            yield f"{what} denied before, not now: {rule}"


def _of(kinds: tuple[str, ...], denials: Iterable[Denied]) -> list[tuple[str, str]]:
    return [(one.what, one.rule) for one in denials if one.kind in kinds]
