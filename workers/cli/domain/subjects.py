"""Whom a right names, and where it holds, out of the options that say so."""

from __future__ import annotations

from typing import TypedDict

from workers.cli.domain.shared import Text
from workers.cli.shared import Misused


class Subject(TypedDict):
    """Whom a right names."""

    subject_type: str
    subject_id: str


class Ends(Subject):
    """Whose grant, and where it holds."""

    scope_type: str
    scope_id: str


def ends(user: Text, team: Text, table_id: Text, view_id: Text, workspace: str) -> Ends:
    """Raises `Misused` for options that name none or several."""
    found = subject(user=user, team=team)
    for option, given in (("--table", table_id), ("--view", view_id)):
        if given is not None and not given.strip():
            # An empty variable of a script must not widen a grant to the workspace.
            raise Misused("is empty; name one, or leave it out", field=option)
    one_at_most(table=table_id, view=view_id)
    if user is not None and table_id is None and view_id is None:
        raise Misused(
            "name one, or a --view; a user's role on the workspace is the member's"
            f" (`context-engine domain member set {user} --role ...`)",
            field="--table",
        )
    scope_type = "table" if table_id is not None else "view" if view_id is not None else "workspace"
    return {**found, "scope_type": scope_type, "scope_id": table_id or view_id or workspace}


def subject(**given: Text) -> Subject:
    """The one subject that was named. Raises `Misused` for none or several."""
    named = [(type, id) for type, id in given.items() if id is not None]
    if len(named) != 1:
        *others, last = (f"--{type}" for type in given)
        raise Misused(f"name one of {', '.join(others)} and {last}")
    ((subject_type, subject_id),) = named
    return {"subject_type": subject_type, "subject_id": subject_id}


def one_at_most(**given: Text) -> None:
    """Raises `Misused` where several are named."""
    named = [f"--{name}" for name, id in given.items() if id is not None]
    if len(named) > 1:
        raise Misused(f"name one of {' and '.join(named)}")
