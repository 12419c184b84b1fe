"""The compact summary: one line a section, in the order of `AgentContext`, stable parts first.

It holds no time and no id that changes between turns, so that a prompt cache that starts with it
keeps matching. What users named is quoted as data.
"""

from __future__ import annotations

from collections.abc import Iterator

from context_engine.models.sections import (
    ConversationSection,
    ProjectSection,
    TableSection,
    TaskSection,
    ViewSection,
)
from context_engine.sections.surface import Surface
from context_engine.wording import (
    Language,
    boundary,
    bounded,
    counted,
    language_of,
    number,
    phrase,
    quoted,
)

SUMMARY_CHARS = 2_000
"""Longest summary, in characters."""

LINE_CHARS = 240
"""Longest line, so that one section cannot crowd out the others."""

HIGHLIGHTS = ("workspace", "table", "view", "project", "conversation")
"""Sections whose lines are the summary's highlights."""


def summarize(
    surface: Surface, conversation: ConversationSection | None, locale: str | None
) -> str:
    """The lines of every section with content, within 2,000 characters; whole lines only."""
    language = language_of(locale)
    last = boundary(language)
    left = SUMMARY_CHARS - len(last)
    lines: list[str] = []
    for _, full in summary_lines(surface, conversation, locale):
        line = bounded(full, LINE_CHARS)
        left -= len(line) + 1
        if left < 0:
            break
        lines.append(line)
    return "\n".join((*lines, last))


def highlights(
    surface: Surface, conversation: ConversationSection | None, locale: str | None
) -> dict[str, str]:
    """The first line of workspace, table, view, project and conversation, by section."""
    found: dict[str, str] = {}
    for name, line in summary_lines(surface, conversation, locale):
        if name in HIGHLIGHTS:
            found.setdefault(name, bounded(line, LINE_CHARS))
    return found


def summary_lines(
    surface: Surface, conversation: ConversationSection | None, locale: str | None
) -> Iterator[tuple[str, str]]:
    """(section, line) in the order of `AgentContext`."""
    words = Words(locale)
    role = f"{words('role')} {surface.user.role}"
    yield "user", words.line("user", quoted(surface.user.name), role)
    yield "workspace", words.line("workspace", quoted(surface.workspace.name))
    if surface.organization is not None:
        organization = surface.organization
        yield (
            "organization",
            words.line(
                "organization", quoted(organization.name), f"{words('role')} {organization.role}"
            ),
        )
    if surface.team is not None:
        members = f"{words('members')}: {counted(surface.team.member_count, locale)}"
        yield "team", words.line("team", quoted(surface.team.name), members)
    if surface.project is not None:
        yield "project", words.project(surface.project)
    if surface.task is not None:
        yield "task", words.task(surface.task)
    for table in surface.tables:
        yield "table", words.table(table)
    for relation in surface.relations:
        names = {table.id: table.name for table in surface.tables}
        source = quoted(names.get(relation.table_id, ""))
        target = quoted(relation.linked_table_name)
        yield (
            "relations",
            words.line("relations", f"{source} → {target}", quoted(relation.field_name)),
        )
    if surface.view is not None:
        yield "view", words.view(surface.view)
    if surface.workflow is not None:
        status = f"{words('status')} {quoted(surface.workflow.status)}"
        yield "workflow", words.line("workflow", quoted(surface.workflow.name), status)
    if surface.agent_stack:
        names_ = " > ".join(quoted(agent.name) for agent in surface.agent_stack)
        yield "agentStack", words.line("agentStack", names_)
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

    def project(self, project: ProjectSection) -> str:
        parts = [quoted(project.name), f"{self('status')} {quoted(project.status)}"]
        if project.due_on is not None:
            parts.append(f"{self('due')} {project.due_on}")
        tasks = counted(project.tasks, self.locale)
        parts.append(
            f"{counted(project.open_tasks, self.locale)} {self('of')} {tasks} {self('open')}"
        )
        return self.line("project", *parts)

    def task(self, task: TaskSection) -> str:
        parts = [quoted(task.title) if task.title is not None else task.id]
        parts.append(f"{self('status')} {quoted(task.status)}")
        if task.due_on is not None:
            parts.append(f"{self('due')} {task.due_on}")
        return self.line("task", *parts)

    def table(self, table: TableSection) -> str:
        return self.line(
            "table",
            quoted(table.name),
            f"{self('role')} {table.permission}",
            f"{number(table.field_count, self.locale)} {self('fields')}",
            f"{number(table.view_count, self.locale)} {self('views')}",
            f"{self('records')}: {counted(table.record_count, self.locale)}",
        )

    def view(self, view: ViewSection) -> str:
        parts = [quoted(view.name), view.type]
        if view.filtered:
            parts.append(self("filtered"))
        parts.append(f"{self('records')}: {counted(view.record_count, self.locale)}")
        return self.line("view", *parts)

    def conversation(self, conversation: ConversationSection) -> str:
        total = conversation.kept_messages + conversation.compressed_messages
        return self.line(
            "conversation",
            quoted(conversation.title),
            f"{number(total, self.locale)} {self('messages')}",
            f"{number(conversation.kept_messages, self.locale)} {self('kept')}",
            f"{number(conversation.compressed_messages, self.locale)} {self('compressed')}",
        )
