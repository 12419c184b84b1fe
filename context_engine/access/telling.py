"""What an explanation is made of: the question, what is stored, and the steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from context_engine.facts import Fact

Outcome = Literal["lets in", "narrows", "shuts out", "no effect"]


@dataclass(frozen=True, slots=True)
class Step:
    """One rule: what it is, what it does to what was asked for, and why."""

    step: str
    outcome: Outcome
    because: str
    rule: JsonValue = None
    """The stored rule, whole: the predicate of a policy, the filter of a view. None without."""
    missing: bool = False
    """Whether what the question names is not there, for anybody."""


Holds = Mapping[str, bool]
"""Whether the record is among the rows of each test, by the test's name; {} without a record."""

Told = Step | Callable[[Holds], Step]
"""A step, or one that waits for what is known of the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Who, and what: a table, and where named a view, a field, a record of it."""

    user_id: str
    workspace_id: str
    table_id: str
    view_id: str | None = None
    field_id: str | None = None
    record_id: str | None = None
    agent_stack: tuple[str, ...] = ()


class Place(Fact):
    """Where something lies; `gone`: trashed, or deleted."""

    workspace_id: str
    table_id: str | None = None
    gone: bool = False


class Stored(Fact):
    """What lies under the ids of a question, whoever may see it. None: nothing."""

    table: Place | None = None
    view: Place | None = None
    field: Place | None = None
    record: Place | None = None


def verdict(what: str, seen: bool, because: str, *, missing: bool = False) -> Step:
    return Step(f"verdict: {what}", lets_in(seen), because, missing=missing)


def lets_in(seen: bool) -> Outcome:
    return "lets in" if seen else "shuts out"


def listed(words: list[str]) -> str:
    return ", ".join(words) if words else "none"
