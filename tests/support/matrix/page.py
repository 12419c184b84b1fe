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

Outcomes = dict[str, list[str]]
"""By row, for each role."""


def marked(page: str, made: str) -> str:
    """The page with what is made between its marks."""
    assert PART.search(page), f"docs/permissions.md lacks {BEGIN} and {END}"
    return PART.sub(lambda _: f"{BEGIN}\n\n{made}\n\n{END}", page)


async def tables(trial: Trial) -> str:
    """Every table, in the order of the page. Raises where a rule of the page does not hold."""
    by = {scope: await _outcomes(trial, ON_TABLE, scope) for scope in SCOPES}
    rest = await _outcomes(trial, ELSEWHERE, "workspace")
    await _check_rest(trial, rest)
    parts = [f"**{title}**\n\n{_table(by[scope])}" for scope, title in SCOPES.items()]
    parts.append(f"**Beside the table**, by the role on the workspace\n\n{_table(rest)}")
    parts.append(f"**Agents in front of a user**\n\n{await _agents(trial)}")
    parts.append(f"**The operator**\n\n{await _operators(trial)}")
    return "\n\n".join(parts)


SCOPES = {
    "workspace": "On the table, by the role on the workspace",
    "table": "On the table, by a grant on it, with no role on the workspace",
    "view": "On the table, by a grant on a restricted view, with no role on the workspace",
    "shut": "On the table, by the role on the workspace, with NONE on the table",
}


async def _outcomes(trial: Trial, rows: Rows, scope: str) -> Outcomes:
    return {
        words: [await trial.row(words, acts, actor(scope, role)) for role in ROLES]
        for words, acts in rows.items()
    }


async def _check_rest(trial: Trial, rest: Outcomes) -> None:
    """A right on a child is none on what it is in, nor does it take any; and who is no member
    finds nothing at all."""
    for words, acts in ELSEWHERE.items():
        none, admin = rest[words][0], rest[words][-1]
        for scope, end in (("table", none), ("view", none), ("shut", admin)):
            assert await trial.row(words, acts, actor(scope, "admin")) == end, (scope, words)
    for words, acts in {**ON_TABLE, **ELSEWHERE}.items():
        assert await trial.row(words, acts, OUTSIDE) == HIDDEN, words


def _table(outcomes: Mapping[str, Sequence[str]]) -> str:
    return table(("", *ROLES), ((words, *ends) for words, ends in outcomes.items()))


async def _agents(trial: Trial) -> str:
    """The permission that a context of the table shows."""
    agents = {f"highest role {role}": f"agent-{role}" for role in ROLES}
    agents["other tables only"] = "agent-elsewhere"
    shown = {
        words: [
            await trial.shown(
                actor("workspace", role), {"tableIds": ["t"], "agentStack": [agent]}
            )
            for role in ROLES
        ]
        for words, agent in agents.items()
    }
    return _table(shown)


async def _operators(trial: Trial) -> str:
    ends = [(words, await trial.row(words, acts, "operator")) for words, acts in OPERATORS.items()]
    return table(("", "operator"), ends)
