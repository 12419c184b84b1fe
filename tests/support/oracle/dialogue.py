"""A conversation as one user reads it: its tail of whole groups, and what stands for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from tests.support.oracle.canaries import canaries_in
from tests.support.oracle.model import Conversation, Message
from tests.support.oracle.rules import Access, NoMember, access

TAKEN = 12
"""Messages that a summary takes from, at most: the latest that are older than the tail."""

Told = dict[str, Any]


class Dialogue:
    """One conversation, for one of its participants."""

    def __init__(self, a: Access, talk: Conversation, message: str | None) -> None:
        self._a, self._talk, self._message = a, talk, message

    def told(self) -> Told:
        messages, turns = self._talk.messages, self._turns()
        kept = len(turns)
        if self._message is not None and not self._said_already():
            turns.append(_turn(None, self._message, []))
        return {
            "id": self._talk.id,
            "title": self._talk.title,
            "turns": turns,
            "summary": self.summary,
            "sources": [one.id for one in self._sources],
            "original_chars": sum(len(one.content) for one in messages if one.role != "tool"),
            "kept": kept,
            "compressed": len(messages) - kept,
        }

    @property
    def summary(self) -> list[str]:
        """The canaries of what the summary was taken from."""
        return [canary for one in self._sources for canary in canaries_in(one.content)]

    @property
    def _sources(self) -> Sequence[Message]:
        """What a tool found is in no summary."""
        older = self._talk.messages[: self._start]
        return [one for one in older if one.role != "tool" and one.content][-TAKEN:]

    @cached_property
    def _start(self) -> int:
        """A result is not parted from its call."""
        messages = self._talk.messages
        start = max(0, len(messages) - self._a.index.workspace.bounds.messages)
        while start < len(messages) and messages[start].role == "tool":
            start -= 1
        return start

    def _said_already(self) -> bool:
        last = self._talk.messages[-1] if self._talk.messages else None
        wanted = (self._a.user.id, self._message)
        return last is not None and (last.author_id, last.content) == wanted

    def _turns(self) -> list[Told]:
        turns: list[Told] = []
        groups: list[list[Message]] = []
        for one in self._talk.messages[self._start :]:
            if one.role == "tool":
                groups[-1].append(one)
            else:
                groups.append([one])
        for call, *results in groups:
            if len(call.tool_calls) != len(results):
                turns.append(_turn(call.id, call.content, []))  # without answers it is a text
                continue
            shown = all(self._shows(one) for one in (call, *results)) if results else True
            calls = list(call.tool_calls) if shown else None
            turns.append(_turn(call.id, call.content, calls, withheld=not shown))
            for one in results:
                content = one.content if shown else None
                turns.append(_turn(one.id, content, [], withheld=not shown))
        return turns

    def _shows(self, one: Message) -> bool:
        """It ran for this user, over tables in sight, by the rights that the user has today."""
        if one.on_behalf_of != self._a.user.id:
            return False
        if not one.table_ids:
            return True
        then = self._then(one)
        if then is None or any(id not in then.ways for id in one.table_ids):
            return False  # it cannot have run: nothing is known of it
        return all(
            id in self._a.ways and rights(self._a, id) == rights(then, id) for id in one.table_ids
        )

    def _then(self, one: Message) -> Access | None:
        """What the user saw when a tool ran; None where that is not known."""
        w = self._a.index.workspace
        if one.under is None:
            return None
        if not one.earlier and one.under == tuple(agent.id for agent in self._a.agents):
            return self._a
        try:
            then = access(w.before if one.earlier else w, self._a.user.id, one.under, self._a.now)
        except NoMember:
            return None
        return None if one.under and then.role_before == "none" else then


def rights(a: Access, table_id: str) -> Any:
    """The ways into a table in sight, what they show, and the version of the rules over it."""
    table = a.index.tables[table_id]
    ways = [
        (
            way.view.id if way.view else None,
            way.held,
            way.role,
            [field.id for field in a.fields_of(way)],
        )
        for way in a.ways[table_id]
    ]
    return table.policy_default, table.policies, a.team_ids, ways


def _turn(
    id: str | None, content: str | None, calls: list[Any] | None, *, withheld: bool = False
) -> Told:
    """`content` and `calls` are None where they are withheld."""
    return {"id": id, "content": content, "calls": calls, "withheld": withheld}
