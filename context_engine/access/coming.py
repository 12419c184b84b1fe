"""Which tables a request comes to, before any of them is read.

Those that a project, a task or a dialogue leads to only where it is in sight itself: else what is
hidden would take the steps of what its tables are read for, and what is missing would not.
"""

from __future__ import annotations

from context_engine.access.roles import RANK, in_workspace, narrowed
from context_engine.facts import Facts, ProjectFacts
from context_engine.keys import Coordinates
from context_engine.models.sections import Role


def led_to(facts: Facts, at: Coordinates) -> Facts:
    """`facts`, in which the request comes to no table by something out of sight."""
    role = narrowed(in_workspace(facts, at.workspace_id), facts.agents)
    found = set(at.table_ids)
    project, task, talk = facts.project, facts.task, facts.conversation
    if project is not None and shows(facts, project, role):
        found.update(project.task_table_ids)
    if (
        task is not None
        and task.table_id is not None
        and (task.project is None or shows(facts, task.project, role))
    ):
        found.add(task.table_id)
    if talk is not None and talk.is_participant:
        found.update(id for message in talk.dialogue.messages for id in message.table_ids)
    return facts.model_copy(update={"named": tuple(id for id in facts.named if id in found)})


def shows(facts: Facts, project: ProjectFacts, role: Role) -> bool:
    """Whether a project is in sight. `role`: on the workspace, narrowed by the agents."""
    if project.private:
        return project.is_member and may_look(facts)
    return RANK[role] >= RANK["viewer"]


def may_look(facts: Facts) -> bool:
    """Whether the agents may look at anything: what is a member's by membership is narrowed too."""
    return narrowed("admin", facts.agents) != "none"
