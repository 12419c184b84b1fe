"""Stored rules are parsed once, and mean what they would if they were parsed anew."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from context_engine import policy
from context_engine.errors import InvalidRequest
from context_engine.policy import kept
from tests.support.facts import cmp

SUBJECTS: Any = [{"type": "role", "id": "viewer"}]


def test_a_rule_that_is_spelled_the_same_is_the_same() -> None:
    """Predicates and policies; equal to what parsing gives."""
    for raw in (cmp("kept"), {"any": [cmp("kept"), True]}, False):
        assert policy.parse_stored(raw) is policy.parse_stored(raw)
        assert policy.parse_stored(raw) == policy.parse(raw)
        found = policy.parse_policy(SUBJECTS, raw, "restrictive")
        assert policy.parse_policy(SUBJECTS, raw, "restrictive") is found
        assert found == policy.RowPolicy.model_validate(
            {"subjects": SUBJECTS, "pred": raw, "mode": "restrictive"}
        )
        assert found.pred is policy.parse_stored(raw)
    other = policy.parse_policy(SUBJECTS, True, "permissive")
    assert other.mode == "permissive"
    assert policy.parse_policy([{"type": "user", "id": "u"}], True, "permissive") != other


def test_rules_that_python_holds_to_be_equal_are_not() -> None:
    """1, 1.0 and true, and a list of them."""
    for literal in (1, True, 1.0, [1], [True], 10**400, "1", 1):
        (found,) = policy.comparisons(policy.parse_stored(cmp("f", "in", literal)))
        assert repr(found.operand) == repr(policy.Literal_(literal=literal))


def test_garbage_is_refused_each_time() -> None:
    """Whatever it is: of no grammar, of half a character, or deeper than JSON is written."""
    deep: Any = True
    for _ in range(1_000):
        deep = {"not": deep}
    for raw in ({"all": 1}, "unreadable", None, cmp("f", literal="\ud800"), deep):
        for _ in range(2):
            with pytest.raises(InvalidRequest):
                policy.parse_stored(raw)
            with pytest.raises(InvalidRequest):
                policy.parse_policy(SUBJECTS, raw, "restrictive")
    for subjects, mode in (([], "restrictive"), (SUBJECTS, "odd"), ("unreadable", "permissive")):
        for _ in range(2):
            with pytest.raises(ValidationError):
                policy.parse_policy(subjects, True, mode)


def test_a_table_that_only_resolving_names_is_not_stored() -> None:
    """Else a rule could say which table its link leads to."""
    for name in ("table", "Table"):
        with pytest.raises(InvalidRequest):
            policy.parse_stored({"linkedAny": {"field": "l", "pred": True, name: "x"}})


def test_long_rules_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are parsed anew: what is kept has a bound in bytes."""
    raw = cmp("f", "in", ["ü" * 50])
    assert policy.parse_stored(raw) is policy.parse_stored(raw)
    size = len('{"cmp":{"ref":"field:f","op":"in","operand":{"literal":[""]}}}') + 100
    monkeypatch.setattr(kept, "LONGEST", size)
    assert policy.parse_stored(raw) is policy.parse_stored(raw)
    monkeypatch.setattr(kept, "LONGEST", size - 1)
    assert policy.parse_stored(raw) is not policy.parse_stored(raw)
    found = [policy.parse_policy(SUBJECTS, raw, "restrictive") for _ in range(2)]
    assert found[0] is not found[1]
    assert found[0] == found[1]
