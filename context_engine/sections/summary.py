"""The compact summary: one line a section, in the order of `AgentContext`, stable parts first.

It holds no time and no id that changes between turns, so that a prompt cache that starts with it
keeps matching. What users named is quoted as data. No line can crowd out another: a name has at
most 40 characters, a list ends with how many more there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from context_engine.models.context import AgentContext
from context_engine.models.sections import (
    ConversationSection,
    ProjectSection,
    Relation,
    TableSection,
    TaskSection,
    ViewSection,
)
from context_engine.sections.surface import Surface
from context_engine.wording import (
    LANGUAGES,
    Language,
    boundary,
    counted,
    day,
    language_of,
    number,
    phrase,
    quoted,
    several,
)

SUMMARY_CHARS = 2_000
"""Longest summary, in characters: a boundary and 13 lines of at most `LINE_CHARS`."""

LINE_CHARS = 144
"""Longest line, in characters."""

WORD_CHARS = 20
"""Longest status, type or role that the domain's users may have chosen, in characters."""

HIGHLIGHTS = ("workspace", "table", "view", "project", "conversation")
"""Sections whose lines are the summary's highlights."""


def summarize(
    surface: Surface, conversation: ConversationSection | None, locale: str | None
) -> str:
    """What the context is not, then a line for every section with content; 2,000 characters."""
    return with_dialogue(surface_lines(surface, locale), conversation, locale)


def surface_lines(surface: Surface, locale: str | None) -> Iterator[str]:
    """The summary's lines that no dialogue changes."""
    yield boundary(language_of(locale))
    yield from (line for _, line in summary_lines(surface, None, locale))


def with_dialogue(
    lines: Iterable[str], conversation: ConversationSection | None, locale: str | None
) -> str:
    """The summary out of the surface's `lines` and the dialogue's own."""
    return "\n".join((*lines, *_dialogue_lines(conversation, locale)))


def _dialogue_lines(
    conversation: ConversationSection | None, locale: str | None
) -> tuple[str, ...]:
    return () if conversation is None else (Words(locale).conversation(conversation),)


def highlights(context: AgentContext) -> dict[str, str]:
    """The summary's own lines for workspace, table, view, project and conversation."""
    labels = {
        phrase(section, language): section for language in LANGUAGES for section in HIGHLIGHTS
    }
    found: dict[str, str] = {}
    for line in context.context_summary.splitlines():
        label, colon, _ = line.partition(": ")
        if colon and label in labels:
            found[labels[label]] = line
    return found


def summary_lines(
    surface: Surface, conversation: ConversationSection | None, locale: str | None
) -> Iterator[tuple[str, str]]:
    """(section, line) in the order of `AgentContext`, one for each section with content."""
    words = Words(locale)
    yield "user", words.named("user", surface.user.name, f"{words('role')} {surface.user.role}")
    yield "workspace", words.named("workspace", surface.workspace.name)
    if (organization := surface.organization) is not None:
        role = f"{words('role')} {quoted(organization.role, WORD_CHARS)}"
        yield "organization", words.named("organization", organization.name, role)
    if surface.team is not None:
        members = f"{words('members')}: {counted(surface.team.member_count, locale)}"
        yield "team", words.named("team", surface.team.name, members)
    if surface.project is not None:
        yield "project", words.project(surface.project)
    if surface.task is not None:
        yield "task", words.task(surface.task)
    first, *others = surface.tables or (None,)
    if first is not None:
        yield "table", words.table(first)
    if others:
        yield "tables", words.tables(t for t in others if t is not None)
    if surface.relations:
        yield "relations", words.relations(surface.relations)
    if surface.view is not None:
        yield "view", words.view(surface.view)
    if surface.workflow is not None:
        status = f"{words('status')} {quoted(surface.workflow.status, WORD_CHARS)}"
        yield "workflow", words.named("workflow", surface.workflow.name, status)
    if surface.agent_stack:
        agents = (quoted(agent.name) for agent in surface.agent_stack)
        yield "agentStack", words.listed("agentStack", agents, " > ")
    if conversation is not None:
        yield "conversation", words.conversation(conversation)


class Words:
    """Lines in one locale."""

    def __init__(self, locale: str | None) -> None:
        self.locale = locale
        self.language: Language = language_of(locale)

    def __call__(self, key: str) -> str:
        return phrase(key, self.language)

    def line(self, section: str, *parts: str) -> str:
        return f"{self(section)}: {', '.join(parts)}"

    def named(self, section: str, name: str, *parts: str) -> str:
        return self.line(section, quoted(name), *parts)

    def listed(self, section: str, items: Iterable[str], separator: str = ", ") -> str:
        """As many items as fit on a line, and how many more there are."""
        every = list(items)
        line, shown = f"{self(section)}: ", 0
        room = LINE_CHARS - len(self._and_more(len(every)))
        for item in every:
            longer = line + (separator if shown else "") + item
            if len(longer) > room:
                break
            line, shown = longer, shown + 1
        rest = len(every) - shown
        return line + (self._and_more(rest) if rest else "")

    def _and_more(self, rest: int) -> str:
        return f" + {number(rest, self.locale)} {self('more')}"

    def project(self, project: ProjectSection) -> str:
        parts = [f"{self('status')} {quoted(project.status, WORD_CHARS)}"]
        if project.due_on is not None:
            parts.append(f"{self('due')} {day(project.due_on, self.locale)}")
        tasks = counted(project.tasks, self.locale)
        parts.append(
            f"{counted(project.open_tasks, self.locale)} {self('of')} {tasks} {self('open')}"
        )
        return self.named("project", project.name, *parts)

    def task(self, task: TaskSection) -> str:
        parts = [f"{self('status')} {quoted(task.status, WORD_CHARS)}"]
        if task.due_on is not None:
            parts.append(f"{self('due')} {day(task.due_on, self.locale)}")
        return self.named("task", task.id if task.title is None else task.title, *parts)

    def table(self, table: TableSection) -> str:
        return self.named(
            "table",
            table.name,
            f"{self('role')} {table.permission}",
            several(table.field_count, "fields", self.locale),
            several(table.view_count, "views", self.locale),
            f"{self('records')}: {counted(table.record_count, self.locale)}",
        )

    def tables(self, tables: Iterable[TableSection]) -> str:
        return self.listed(
            "tables",
            (f"{quoted(t.name)} {counted(t.record_count, self.locale)}" for t in tables),
        )

    def relations(self, relations: Iterable[Relation]) -> str:
        """Opaque ones lead nowhere that could be named."""
        return self.listed("relations", (self._relation(relation) for relation in relations))

    def _relation(self, relation: Relation) -> str:
        field = quoted(relation.field_name, WORD_CHARS)
        to = "?"
        if relation.linked_table_name is not None:
            to = quoted(relation.linked_table_name, WORD_CHARS)
        if relation.link_count is not None:
            to = f"{to} {counted(relation.link_count, self.locale)}"
        return f"{quoted(relation.table_name, WORD_CHARS)}.{field} → {to}"

    def view(self, view: ViewSection) -> str:
        parts = [quoted(view.type, WORD_CHARS)]
        if view.filtered:
            parts.append(self("filtered"))
        parts.append(f"{self('records')}: {counted(view.record_count, self.locale)}")
        return self.named("view", view.name, *parts)

    def conversation(self, conversation: ConversationSection) -> str:
        total = conversation.kept_messages + conversation.compressed_messages
        return self.named(
            "conversation",
            conversation.title,
            several(total, "messages", self.locale),
            f"{number(conversation.kept_messages, self.locale)} {self('kept')}",
            f"{number(conversation.compressed_messages, self.locale)} {self('compressed')}",
        )
