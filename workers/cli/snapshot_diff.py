"""How `snapshot diff` shows what it found: for people section by section, for machines as JSON."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from rich.text import Text

from workers.cli.evidence import (
    FOR_OPERATORS,
    bounded_json,
    clock,
    differing,
    line,
    parsed,
    said,
    value_text,
    versions_json,
)
from workers.cli.shared import console

if TYPE_CHECKING:
    from context_engine.evidence import Change, ContextDiff, SectionDiff
    from context_engine.models.base import JsonObject
    from context_engine.ports import SnapshotRecord

SHOWN_CHANGES = 12
"""Changes of one section on a terminal; --json has all."""

SIGNS = {"appeared": "+", "went": "-", "changed": "~", "reordered": "="}
STYLES = {"appeared": "green", "went": "red", "changed": "yellow", "reordered": "dim"}


def pairs(values: JsonObject) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)


def diff_json(
    one: SnapshotRecord, other: SnapshotRecord, differs: ContextDiff, *, operator: bool
) -> JsonObject:
    shown: JsonObject = {
        "old": _side_json(one),
        "new": _side_json(other),
        "same": not differs.sections and not differs.head,
        "head": [_change_json(change) for change in differs.head],
        "sections": [_section_json(section, operator=operator) for section in differs.sections],
    }
    return shown | ({"notice": FOR_OPERATORS} if operator else {})


def _side_json(record: SnapshotRecord) -> JsonObject:
    return {
        "contextId": record.context_id,
        "contextHash": record.context_hash,
        "userId": record.user_id,
        "workspaceId": record.workspace_id,
        "source": record.source,
        "generatedAt": record.generated_at.isoformat(),
        "versions": versions_json(record, parsed(record)),
    }


def _section_json(section: SectionDiff, *, operator: bool) -> JsonObject:
    shown: JsonObject = {
        "section": section.name,
        "kind": section.kind,
        "before": section.before.model_dump(mode="json") if section.before else None,
        "after": section.after.model_dump(mode="json") if section.after else None,
        "why": list(section.why),
        "changes": [_change_json(change) for change in section.changes],
    }
    return shown | ({"denials": list(section.denials)} if operator else {})


def _change_json(change: Change) -> JsonObject:
    from context_engine.evidence import change_json

    return {
        name: bounded_json(value) if name in ("old", "new") else value
        for name, value in change_json(change).items()
    }


def show_diff(one: SnapshotRecord, other: SnapshotRecord, differs: ContextDiff) -> None:
    for sign, record in (("-", one), ("+", other)):
        whom = said(f"{record.user_id} in {record.workspace_id}").plain
        versions = pairs(versions_json(record, parsed(record)))
        line(f"{sign} {record.context_id}  {clock(record.generated_at)}  {record.source}  {whom}")
        console.print(Text("  ").append(said(f"{record.context_hash[:12]}, {versions}", "dim")))
    for change in differs.head:
        _show_change(change)
    if not differs.sections:
        line("no difference in content")
    for section in differs.sections:
        _show_section(section)


def _show_section(section: SectionDiff) -> None:
    console.print()
    console.print(
        Text.assemble(
            (section.name, "bold"), "  ", (section.kind, STYLES[section.kind]),
        )
    )  # fmt: skip
    for why in section.why:
        console.print(Text("  ").append(said(why, "dim")))
    for rule in section.denials:
        console.print(Text.assemble(("  operator: ", "yellow"), said(rule)))
    for change in section.changes[:SHOWN_CHANGES]:
        _show_change(change)
    if (more := len(section.changes) - SHOWN_CHANGES) > 0:
        line(f"  ... {more} more; --json has them")


def _show_change(change: Change) -> None:
    from context_engine.evidence import Missing, path_text

    where = said(path_text(change.path)).plain
    if isinstance(change.old, str) and isinstance(change.new, str):
        if where:
            console.print(Text(f"  ~ {where}", style=STYLES["changed"]))
        for sign, text in islice(differing(change.old, change.new), SHOWN_CHANGES):
            style = STYLES["went" if sign == "-" else "appeared"]
            console.print(Text(f"    {sign} {text}", style=style))
        return
    shown = [value_text(one) for one in (change.old, change.new) if not isinstance(one, Missing)]
    if change.kind in ("appeared", "went") and len(shown) == 2:
        shown = [shown[change.kind == "appeared"]]
    values = " -> ".join(shown)
    text = f"  {SIGNS[change.kind]} {where}{': ' if where else ''}{values}"
    console.print(Text(text, style=STYLES[change.kind]))
