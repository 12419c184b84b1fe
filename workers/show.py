"""How a context looks on a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from context_engine.models import AgentContext, Count
from context_engine.wording import clean

STATUS_STYLE = {
    "included": "green",
    "trimmed": "yellow",
    "unavailable": "red",
    "absent": "dim",
}


def number(count: Count | None) -> str:
    """A count as people read it: the number, or why there is none."""
    if count is None:
        return "-"
    if count.value is None:
        return f"unavailable ({count.unavailable})"
    return f"{count.value:,}" if count.exact else f"about {count.value:,}"


def context_panel(context: AgentContext) -> RenderableType:
    """The whole context: what was told, and why each section is as it is."""
    head = Text.assemble(
        ("source ", "dim"), (context.source, "bold"),
        ("   hash ", "dim"), context.context_hash[:12],
        ("   age ", "dim"), f"{context.age_ms} ms",
    )  # fmt: skip
    parts: list[RenderableType] = [head, Text(), Text(context.context_summary), Text()]
    parts.extend(_tables(context))
    parts.append(_trace(context))
    if context.unresolved:
        parts.append(Text("unresolved: " + ", ".join(u.coordinate for u in context.unresolved)))
    parts.extend(Text(f"note: {remark}", style="yellow") for remark in context.trace.remarks)
    return Panel(Group(*parts), title="AgentContext", border_style="cyan")


def _tables(context: AgentContext) -> Iterator[RenderableType]:
    for table in context.tables:
        grid = Table(show_header=False, box=None, padding=(0, 1, 0, 0))
        grid.add_column(style="dim", width=10, no_wrap=True)
        grid.add_column(overflow="fold")
        fields = ", ".join(f"{clean(field.name)} ({field.type})" for field in table.fields)
        grid.add_row("table", Text(f"{clean(table.name)} - {table.permission}", style="bold"))
        grid.add_row("fields", Text(f"{table.field_count}: {fields}"))
        grid.add_row("views", Text(", ".join(clean(view.name) for view in table.views) or "-"))
        grid.add_row("records", Text(number(table.record_count)))
        yield grid
    if context.view is not None:
        count = context.view.record_count
        noun = "record" if count is not None and count.value == 1 else "records"
        shown = f"view {clean(context.view.name)}: {number(count)} {noun}"
        yield Text(shown)


def _trace(context: AgentContext) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("section", "status", "why"):
        table.add_column(name, overflow="fold")
    table.add_column("chars", justify="right")
    for name, section in context.trace.sections.items():
        style = STATUS_STYLE[section.status]
        table.add_row(
            name, Text(section.status, style=style), Text(section.reason), str(section.chars)
        )
    return table
