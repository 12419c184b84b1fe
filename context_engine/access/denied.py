"""The error of a member of the workspace who asks for what is out of sight."""

from __future__ import annotations

from collections.abc import Iterable

from context_engine.errors import NotFound
from context_engine.keys import Tag


class Denied(NotFound):
    """`NotFound` inside a workspace, with all that the denial depends on: it can be cached.

    That of the workspace itself is never one: nothing is kept for who is no member. `tags` stay
    in the engine, since what is hidden depends on more than what is missing.
    """

    def __init__(self, kind: str, id: str, tags: Iterable[Tag]) -> None:
        super().__init__(kind, id)
        self.tags = frozenset(tags)
