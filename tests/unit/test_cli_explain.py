"""What `explain` prints: readable on 80 columns, nothing of a rule cut."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from context_engine.access import Question, Step
from workers.cli import explain

RULE = {
    "any": [
        {"cmp": {"ref": f"field:fld-task-{n}", "op": "eq", "operand": {"literal": "x" * n}}}
        for n in range(1, 100, 7)
    ]
}
STEPS = (
    Step("membership", "lets in", "an active member with the role viewer; teams: none"),
    Step("policy 1 of 2 for the table's own way", "narrows", "restrictive, names role a", RULE),
    Step("policy 2 of 2 for the table's own way", "shuts out", "restrictive, names user b", False),
    Step(f"verdict: table {'t' * 90}", "lets in", f"by the way by view {'v' * 200}"),
)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """The steps on a terminal of 80 columns."""
    monkeypatch.setattr(explain, "console", Console(width=80))
    for step in STEPS:
        explain._show(step)
    return capsys.readouterr().out


def test_nothing_is_wider_than_the_terminal(told: str) -> None:
    """Long words are folded; the column of outcomes stays free."""
    lines = told.splitlines()
    assert max(map(len, lines)) <= 80
    assert not any(line.endswith(" ") for line in lines)
    assert [line.split("  ")[0] for line in lines if line[:1].strip()] == [
        one.outcome for one in STEPS
    ]


def test_nothing_is_cut(told: str) -> None:
    """Every word of every step, and every rule whole."""
    squeezed = "".join(told.split())
    for step in STEPS:
        for text in (step.step, step.because, *([json.dumps(RULE)] if step.rule else [])):
            assert "".join(text.split()) in squeezed
    assert "…" not in told


def test_programs_get_the_rule_as_json() -> None:
    """As it is stored: `null` where a step quotes none, `false` where the rule is `false`."""
    asked = Question(user_id="u", workspace_id="w", table_id="t")
    made = explain._as_json(asked, STEPS)
    assert [one["rule"] for one in made["steps"]] == [None, RULE, False, None]  # type: ignore[attr-defined]
