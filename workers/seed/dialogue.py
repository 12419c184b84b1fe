"""The conversation of the demo workspace: 36 messages, tool calls and their results among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from context_engine.models.base import JsonObject
from workers.seed import shape

CONVERSATION = "cnv-launch"
TITLE = "Atlas launch"
PARTICIPANTS = (shape.ANA.id, shape.BEN.id, shape.CHLOE.id, shape.EVA.id)


@dataclass(frozen=True, slots=True)
class Said:
    """A message to be. `actor_id` writes it; tools run for that user."""

    id: str
    actor_id: str
    role: str
    content: str
    tool_calls: tuple[JsonObject, ...] = ()
    tool_call_id: str | None = None
    table_ids: tuple[str, ...] = ()


_TURNS: tuple[tuple[str, str, str], ...] = (
    (shape.ANA.id, "Atlas goes live on 14 December. What is still open?",
     "Most of it is in the release train; I can list the urgent tasks by owner."),
    (shape.BEN.id, "The customs form waits for the tariff table. Decision: we ship without"
                   " discounts and add them in 1.4.",
     "Noted: discounts move to 1.4, so the tariff table no longer blocks the customs form."),
    (shape.CHLOE.id, "Can I see my own tasks for this week?",
     "Open the view \"Open tasks\": it holds those that are assigned to you."),
    (shape.ANA.id, "Please keep the budget under 180,000 for Q4.",
     "Understood: 180,000 is the limit for Q4. I will warn before a plan goes over it."),
    (shape.EVA.id, "Support wants the gate kiosk in Gdansk first, then Tallinn.",
     "The order is Gdansk, then Tallinn; the other ports follow in January."),
    (shape.BEN.id, "Who reviews the audit log work while Finn is away?",
     "Dan has reviewed the last three changes there; he has 12 hours left this week."),
    (shape.ANA.id, "Then Dan reviews. Never assign reviews to the author of a change.",
     "Rule noted: the author of a change is never its reviewer."),
    (shape.CHLOE.id, "The container search is slow on the staging site.",
     "The last measurement was 2.4 s at the 95th percentile; the goal is 800 ms."),
    (shape.BEN.id, "I'll add the missing index tonight.",
     "Good. I suggest to measure again before the freeze on Thursday."),
    (shape.ANA.id, "What did we promise Porto Clinic?",
     "A weekly export in their own format, from the first release of the new year."),
)  # fmt: skip
_TOOLS: tuple[tuple[int, str, str, str, str, str], ...] = (
    (0, shape.ANA.id, "tbl-tasks", "List the urgent tasks.", "Urgent and not done: 9 due this week,"
     " 4 of them with Ben.", "Nine are urgent this week; four of them are Ben's."),
    (4, shape.BEN.id, "tbl-incidents", "How many incidents did the last release cause?",
     "6 incidents, 2 of severity S1, 71 minutes down in all.",
     "Six, two of them S1, with 71 minutes of downtime in all."),
    (7, shape.ANA.id, "tbl-releases", "When is the next freeze?", "Release 2.3 freezes on"
     " 3 December.", "Release 2.3 freezes on Thursday, 3 December."),
    (9, shape.ANA.id, "tbl-tasks", "And what is planned for the week after?", "31 tasks start in"
     " week 50.", "31 tasks start in that week; most of them are documentation."),
)  # fmt: skip
"""After which turn, for whom, over which table: question, result, answer."""


def said() -> Iterator[Said]:
    """The messages, oldest first."""
    number = 0

    def say(actor_id: str, role: str, content: str, **more: object) -> Said:
        nonlocal number
        number += 1
        return Said(f"msg-launch-{number:02d}", actor_id, role, content, **more)  # type: ignore[arg-type]

    for turn, (actor_id, question, answer) in enumerate(_TURNS):
        yield say(actor_id, "user", question)
        yield say(actor_id, "assistant", answer)
        for after, asker, table_id, ask, result, reply in _TOOLS:
            if after != turn:
                continue
            call_id = f"call-{turn:02d}"
            call: JsonObject = {
                "id": call_id,
                "name": "read_table",
                "arguments": {"table": table_id},
            }
            yield say(asker, "user", ask)
            yield say(asker, "assistant", "", tool_calls=(call,), table_ids=(table_id,))
            yield say(asker, "tool", result, tool_call_id=call_id, table_ids=(table_id,))
            yield say(asker, "assistant", reply)
