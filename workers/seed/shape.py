"""The shape of the demo workspace: people, tables, fields, views. Ids are readable on purpose."""

from __future__ import annotations

from dataclasses import dataclass, field

from context_engine.models.base import JsonObject

WORKSPACE = "ws-delivery"
SECOND = "ws-second"
ORGANIZATION = "org-harbour"


@dataclass(frozen=True, slots=True)
class Person:
    id: str
    name: str
    role: str
    """Role in the workspace; `defer` takes the one of the teams."""
    timezone: str = "Europe/Berlin"
    locale: str = "en"

    @property
    def email(self) -> str:
        return f"{self.id.removeprefix('usr-')}@harbour.example"


ANA, BEN, CHLOE, DAN, EVA, FINN = PEOPLE = (
    Person("usr-ana", "Ana Duarte", "admin"),
    Person("usr-ben", "Ben Okafor", "editor", "Europe/London", "en-GB"),
    Person("usr-chloe", "Chloe Martin", "viewer", "Europe/Paris"),
    Person("usr-dan", "Dan Li", "defer", "Asia/Shanghai", "zh-CN"),
    Person("usr-eva", "Eva Novak", "editor", "Europe/Prague"),
    Person("usr-finn", "Finn Larsen", "editor", "Europe/Copenhagen"),
)
GUS = Person("usr-gus", "Gus Petrov", "admin", "Europe/Sofia")
"""Of the second workspace only."""


@dataclass(frozen=True, slots=True)
class Field:
    id: str
    name: str
    type: str
    options: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Link:
    """A link field, with the field that answers it on the other side."""

    id: str
    name: str
    table_id: str
    linked_table_id: str
    back_id: str
    back_name: str


@dataclass(frozen=True, slots=True)
class View:
    id: str
    name: str
    type: str
    ownership: str = "collaborative"
    filter: JsonObject | None = None
    hidden: tuple[str, ...] = ()
    order: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """The first field is the primary one."""

    id: str
    name: str
    fields: tuple[Field, ...]
    views: tuple[View, ...]


def _choices(*names: str) -> JsonObject:
    return {"choices": list(names)}


def _where(field_id: str, op: str, value: str | bool) -> JsonObject:
    return {"cmp": {"ref": f"field:{field_id}", "op": op, "operand": {"literal": value}}}


STATUS = ("Backlog", "Ready", "In progress", "Review", "Done")
PRIORITY = ("Low", "Normal", "High", "Urgent")
LABELS = ("backend", "frontend", "data", "design", "ops", "docs")
SKILLS = ("Python", "SQL", "React", "Kafka", "Research", "Writing")

CLIENTS = Table(
    "tbl-clients",
    "Clients",
    (
        Field("fld-client-name", "Name", "text"),
        Field("fld-client-sector", "Sector", "select",
              _choices("Shipping", "Health", "Retail", "Public")),
        Field("fld-client-since", "Client since", "date"),
        Field("fld-client-active", "Active", "boolean"),
        Field("fld-client-value", "Contract value", "number"),
        Field("fld-client-manager", "Account manager", "user"),
    ),
    (
        View("viw-clients", "All clients", "grid"),
        View("viw-clients-active", "Active clients", "grid",
             filter=_where("fld-client-active", "eq", True)),
    ),
)  # fmt: skip
PROJECTS = Table(
    "tbl-projects",
    "Projects",
    (
        Field("fld-project-name", "Name", "text"),
        Field("fld-project-status", "Status", "select", _choices("Planned", "Running", "Closed")),
        Field("fld-project-budget", "Budget", "number"),
        Field("fld-project-start", "Start", "date"),
        Field("fld-project-lead", "Lead", "user"),
        Field("fld-project-tags", "Tags", "multi_select", _choices(*LABELS)),
    ),
    (
        View("viw-projects", "All projects", "grid"),
        View("viw-projects-plan", "Plan", "gantt"),
        View("viw-projects-running", "Running", "grid",
             filter=_where("fld-project-status", "eq", "Running")),
    ),
)  # fmt: skip
PEOPLE_TABLE = Table(
    "tbl-people",
    "People",
    (
        Field("fld-person-name", "Name", "text"),
        Field("fld-person-user", "Account", "user"),
        Field("fld-person-craft", "Craft", "select",
              _choices("Engineer", "Designer", "Analyst", "Manager")),
        Field("fld-person-skills", "Skills", "multi_select", _choices(*SKILLS)),
        Field("fld-person-hours", "Hours a week", "number"),
        Field("fld-person-remote", "Remote", "boolean"),
    ),
    (View("viw-people", "Everyone", "grid"),),
)  # fmt: skip
RELEASES = Table(
    "tbl-releases",
    "Releases",
    (
        Field("fld-release-version", "Version", "text"),
        Field("fld-release-state", "State", "select", _choices("Planned", "Frozen", "Shipped")),
        Field("fld-release-date", "Date", "date"),
        Field("fld-release-notes", "Notes", "text"),
    ),
    (View("viw-releases", "All releases", "grid"), View("viw-releases-plan", "Train", "gantt")),
)
TASKS = Table(
    "tbl-tasks",
    "Tasks",
    (
        Field("fld-task-title", "Title", "text"),
        Field("fld-task-status", "Status", "select", _choices(*STATUS)),
        Field("fld-task-priority", "Priority", "select", _choices(*PRIORITY)),
        Field("fld-task-assignee", "Assignee", "user"),
        Field("fld-task-watchers", "Watchers", "user", {"multiple": True}),
        Field("fld-task-due", "Due", "date"),
        Field("fld-task-start", "Start", "date"),
        Field("fld-task-estimate", "Estimate (h)", "number"),
        Field("fld-task-spent", "Spent (h)", "number"),
        Field("fld-task-billable", "Billable", "boolean"),
        Field("fld-task-labels", "Labels", "multi_select", _choices(*LABELS)),
        Field("fld-task-notes", "Notes", "text"),
    ),
    (
        View("viw-tasks", "All tasks", "grid"),
        View("viw-tasks-board", "Board", "kanban",
             order=("fld-task-status", "fld-task-title", "fld-task-assignee")),
        View("viw-tasks-timeline", "Timeline", "gantt",
             order=("fld-task-title", "fld-task-start", "fld-task-due"),
             hidden=("fld-task-notes",)),
        View("viw-tasks-open", "Open tasks", "grid",
             filter=_where("fld-task-status", "ne", "Done"),
             order=("fld-task-title", "fld-task-due", "fld-task-priority"),
             hidden=("fld-task-spent", "fld-task-billable")),
        View("viw-tasks-urgent", "Urgent", "grid",
             filter={"all": [_where("fld-task-priority", "eq", "Urgent"),
                             _where("fld-task-status", "ne", "Done")]}),
        View("viw-tasks-ana", "Ana's week", "grid", ownership="personal",
             filter={"cmp": {"ref": "field:fld-task-assignee", "op": "eq",
                             "operand": {"user": "id"}}}),
        View("viw-tasks-escalated", "Escalations", "kanban", ownership="restricted",
             filter=_where("fld-task-priority", "eq", "Urgent")),
        View("viw-tasks-billable", "Billable", "grid",
             filter=_where("fld-task-billable", "eq", True)),
    ),
)  # fmt: skip
INCIDENTS = Table(
    "tbl-incidents",
    "Incidents",
    (
        Field("fld-incident-title", "Title", "text"),
        Field("fld-incident-severity", "Severity", "select", _choices("S1", "S2", "S3")),
        Field("fld-incident-opened", "Opened", "date"),
        Field("fld-incident-resolved", "Resolved", "boolean"),
        Field("fld-incident-reporter", "Reporter", "user"),
        Field("fld-incident-minutes", "Minutes down", "number"),
    ),
    (
        View("viw-incidents", "All incidents", "grid"),
        View("viw-incidents-open", "Open incidents", "grid",
             filter=_where("fld-incident-resolved", "eq", False)),
    ),
)  # fmt: skip

TABLES = (CLIENTS, PROJECTS, PEOPLE_TABLE, RELEASES, TASKS, INCIDENTS)

LINKS = (
    Link("fld-project-client", "Client", "tbl-projects", "tbl-clients",
         "fld-client-projects", "Projects"),
    Link("fld-release-project", "Project", "tbl-releases", "tbl-projects",
         "fld-project-releases", "Releases"),
    Link("fld-task-project", "Project", "tbl-tasks", "tbl-projects",
         "fld-project-tasks", "Tasks"),
    Link("fld-task-release", "Release", "tbl-tasks", "tbl-releases",
         "fld-release-tasks", "Tasks"),
    Link("fld-incident-release", "Release", "tbl-incidents", "tbl-releases",
         "fld-release-incidents", "Incidents"),
    Link("fld-person-projects", "Projects", "tbl-people", "tbl-projects",
         "fld-project-people", "People"),
)  # fmt: skip

OWN_TASKS: JsonObject = {
    "default": "show_all",
    "policies": [
        {
            "subjects": [{"type": "role", "id": "viewer"}],
            "mode": "restrictive",
            "pred": {
                "any": [
                    {"cmp": {"ref": "sys:created_by", "op": "eq", "operand": {"user": "id"}}},
                    {"cmp": {"ref": "field:fld-task-assignee", "op": "eq",
                             "operand": {"user": "id"}}},
                ]
            },
        }
    ],
}  # fmt: skip
"""Viewers see the tasks that they made or that are assigned to them."""
