"""What every section gives: its content, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from context_engine.models.context import Status, TraceSection
from context_engine.models.sections import Count

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

NOT_ASKED = "not asked for"
NOT_FOUND = "not found"
"""One word for missing and denied."""


@dataclass(frozen=True, slots=True)
class Section(Generic[T_co]):
    """A section's content, with the status and reason for the trace."""

    content: T_co
    status: Status
    reason: str

    def traced(self) -> TraceSection:
        """For the trace; the size is known once the section is written."""
        return TraceSection(status=self.status, reason=self.reason)


def counted(count: Count | None, uncountable: str | None) -> Count:
    """The number, unless access says why nobody can know it: whatever was counted then is none."""
    if uncountable is not None:
        return Count.missing(uncountable)
    return count or Count.missing("not counted")


def included(content: T, reason: str = "in sight") -> Section[T]:
    return Section(content, "included", reason)


def trimmed(content: T, reason: str) -> Section[T]:
    return Section(content, "trimmed", reason)


def unavailable(content: T, reason: str) -> Section[T]:
    return Section(content, "unavailable", reason)


def absent(asked: object) -> Section[None]:
    """A section without content: not asked for, or not found."""
    return Section(None, "absent", NOT_FOUND if asked else NOT_ASKED)
