"""Dialogues, drawn: people talk, and tools run for them over tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.support.oracle import draws as d
from tests.support.oracle import model as m

STACKS: list[tuple[str, ...]] = [(), (), ("a0",), ("a0", "a1")]
"""Agents under which a tool runs, outermost first."""


def conversations(
    draw: st.DrawFn, names: d.Canaries, tables: list[m.Table], users: list[str]
) -> tuple[m.Conversation, ...]:
    """One conversation of a few users, with tools that ran for one of them.

    How many turns it has is drawn, what is in them comes of one drawn number.
    """
    chance = Random(draw(st.integers(0, 2**16)))
    talkers = tuple(d.some(draw, users, 4) or users)
    messages: list[m.Message] = []
    for n in range(draw(st.sampled_from([3, 1, 6, 0]))):
        at = d.NOW - timedelta(minutes=30 - 3 * n)
        if chance.random() < 0.8:
            whom = talkers[:1] if talkers and chance.random() < 0.8 else users
            messages += _tool(chance, names, [table.id for table in tables], whom, f"m{n}", at)
        author, text = chance.choice(users), names.named("says")
        messages.append(m.Message(f"m{n}.u", "user", text, at, author_id=author))
    return (m.Conversation("c", names.named("Talk"), talkers, tuple(messages)),)


def _tool(
    chance: Random,
    names: d.Canaries,
    tables: list[str],
    users: Sequence[str],
    id: str,
    at: datetime,
) -> list[m.Message]:
    """A call and its results: now and then one is missing, or ran for somebody else."""
    over = tuple(chance.sample(tables, min(len(tables), chance.choice([0, 1, 1, 1, 2]))))
    ran: dict[str, Any] = {
        "on_behalf_of": chance.choice(users),
        "table_ids": over,
        "under": chance.choice(STACKS) if chance.random() < 0.9 else None,
        "earlier": chance.random() < 0.4,
    }
    calls = tuple(
        {"id": f"{id}.call{n}", "name": "look", "arguments": {"q": names.named("q")}}
        for n in range(chance.choice([1, 1, 2]))
    )
    made = [
        m.Message(f"{id}.a", "assistant", names.named("calls"), at, tool_calls=calls, **ran),
        *(
            m.Message(
                f"{id}.t{n}",
                "tool",
                names.named("found"),
                at,
                tool_call_id=call["id"],
                **(ran if chance.random() < 0.9 else {**ran, "on_behalf_of": chance.choice(users)}),
            )
            for n, call in enumerate(calls)
        ),
    ]
    return made if chance.random() < 0.9 else made[:-1]
