"""The matrix as the tables of docs/permissions.md."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tests.support.matrix.actions import ELSEWHERE, ON_TABLE, OPERATORS, Rows
from tests.support.matrix.trying import HIDDEN, Trial
from tests.support.matrix.world import OUTSIDE, ROLES, actor
from workers.reference.markdown import table

BEGIN = "<!-- Made by `WRITE_MATRIX=1 pytest tests/contracts/test_permission_matrix.py`. -->"
END = "<!-- End of what is made. -->"
PART = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}", re.DOTALL)
SHUT_OUT = ("builder", "admin")
"""Roles with which somebody who has NONE on the table is tried."""

Outcomes = dict[str, list[str]]
"""By row, for each role."""


def marked(page: str, made: str) -> str:
    """The page with what is made between its marks."""
    assert PART.search(page), f"docs/permissions.md lacks {BEGIN} and {END}"
    return PART.sub(lambda _: f"{BEGIN}\n\n{made}\n\n{END}", page)


async def tables(trial: Trial) -> str:
    """Every table, in the order of the page. Raises where a rule of the page does not hold."""
    own = await _outcomes(trial, ON_TABLE, "workspace")
    assert await _outcomes(trial, _first(ON_TABLE), "table") == own, "a grant takes its place"
    by_view = await _outcomes(trial, ON_TABLE, "view")
    shut = await _outcomes(trial, ON_TABLE, "shut", SHUT_OUT)
    rest = await _outcomes(trial, ELSEWHERE, "workspace")
    await _check_rest(trial, rest)
    return "\n\n".join(
        (
            "On a table, by the role on the workspace, or by a grant on the table alone:",
            _table(own),
            "On a table, by a grant on a restricted view alone:",
            _table(by_view),
            "On a table, by the role on the workspace, with NONE on the table:",
            _table(_but_for_hidden(shut), SHUT_OUT),
            "Beside tables, by the role on the workspace:",
            _table(rest),
            "The permission that a context shows on a table, by the role on it and an agent's:",
            await _agents(trial),
            "By the operator, who need not be a user:",
            await _operators(trial),
        )
    )


async def _outcomes(trial: Trial, rows: Rows, scope: str, roles: Sequence[str] = ROLES) -> Outcomes:
    return {
        words: [await trial.row(words, acts, actor(scope, role)) for role in roles]
        for words, acts in rows.items()
    }


def _first(rows: Rows) -> Rows:
    """One action of each row, where all of them were tried already."""
    return {words: acts[:1] for words, acts in rows.items()}


async def _check_rest(trial: Trial, rest: Outcomes) -> None:
    """A right on a child is none on what it is in, and NONE there takes none of it away; who is
    no member finds nothing at all."""
    for words, acts in _first(ELSEWHERE).items():
        none, admin = rest[words][0], rest[words][-1]
        for scope, end in (("table", none), ("view", none), ("shut", admin)):
            assert await trial.row(words, acts, actor(scope, "admin")) == end, (scope, words)
    for words, acts in _first({**ON_TABLE, **ELSEWHERE}).items():
        assert await trial.row(words, acts, OUTSIDE) == HIDDEN, words


def _but_for_hidden(outcomes: Outcomes) -> Outcomes:
    """The rows that are not hidden from all, and one for those that are."""
    told = {words: ends for words, ends in outcomes.items() if set(ends) != {HIDDEN}}
    return {**told, "anything else": [HIDDEN] * len(SHUT_OUT)}


def _table(outcomes: Mapping[str, Sequence[str]], roles: Sequence[str] = ROLES) -> str:
    return table(("", *roles), ((words, *ends) for words, ends in outcomes.items()))


async def _agents(trial: Trial) -> str:
    agents = {f"an agent of at most {role}": f"agent-{role}" for role in ROLES}
    agents["an agent of other tables"] = "agent-elsewhere"
    return _table(
        {
            words: [await trial.permission(actor("workspace", role), id) for role in ROLES]
            for words, id in agents.items()
        }
    )


async def _operators(trial: Trial) -> str:
    ends = [(words, await trial.row(words, acts, "operator")) for words, acts in OPERATORS.items()]
    return table(("", "operator"), ends)
