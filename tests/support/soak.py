"""Traffic, changes, kills, and an audit beside them: nothing may differ that no change explains.

A change that was acknowledged before a request arrived explains nothing: it must be in the answer.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from context_engine import bootstrap
from context_engine.adapters.sql.services import DomainServices
from context_engine.errors import NotFound, Rejected, Unavailable
from context_engine.keys import Tag
from context_engine.models import ContextBuildInput
from context_engine.ports import Marked
from events.client import ContextClient
from tests.bench.vain import EVERYBODYS, MIX
from workers.audit import GRACE_SECONDS, Auditor, Difference
from workers.house import House
from workers.seed import shape
from workers.sightings import Sightings, watching

CLIENTS = 4
CHANGES_A_SECOND = 4.0
SAMPLES_A_SECOND = 5.0
ANSWER_SECONDS = 8.0
"""How long a client waits for an answer: longer than a killed worker takes to be back, mostly."""

DIE = ("a cell", "a new record", "a link", "a message", "a task")
"""Changes whose service dies between its commit and its mark, now and then."""

PUBLISHED_SECONDS = 60.0
"""How long the last changes may take to their topics, past the last restart."""


class Dies:
    """A marker of services that die before they mark."""

    async def mark(self, workspace_id: str, tags: frozenset[Tag], **_: object) -> Marked:
        raise Unavailable("cache", "died before it marked")


@dataclass
class Soak:
    """What it came to."""

    house: House
    rng: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    committed: dict[str, float] = field(default_factory=dict)
    """When each change was written, by its id, in seconds since 1970; until it is on its topic."""
    acknowledged: dict[str, float] = field(default_factory=dict)
    """When its service had marked it and answered."""
    unexplained: list[str] = field(default_factory=list)

    async def run(self, seconds: float) -> Sightings:
        """Traffic, changes and kills for so long. Raises what nobody expected."""
        settings = self.house.settings
        self.ends = time.monotonic() + seconds
        async with (
            bootstrap.parts(settings) as parts,
            watching(settings, None) as seen,
            ContextClient(settings) as client,
        ):
            dying = DomainServices(parts.database, Dies(), enforce_seconds=0.01, ids_as_given=True)
            auditor = Auditor(settings, parts.domain, seen)
            audit = asyncio.create_task(self._audit(auditor, seen))
            async with asyncio.TaskGroup() as work:
                for _ in range(CLIENTS):
                    work.create_task(self._ask(client))
                work.create_task(self._change(parts.services, dying))
                work.create_task(self._kill())
            await audit
            return seen

    # -- traffic --

    async def _ask(self, client: ContextClient) -> None:
        """A client asks; what is refused or late is counted, and asked no more."""
        number = 0
        while time.monotonic() < self.ends:
            number += 1
            person, place = self.rng.choice(shape.PEOPLE).id, self.rng.choice(EVERYBODYS)
            given = {"userId": person, "workspaceId": shape.WORKSPACE, **place}
            if "sessionId" in place and number % 2:
                given = {name: given[name] for name in ("userId", "workspaceId", "sessionId")}
            try:
                request = ContextBuildInput.model_validate(given)
                ready = await client.request(request, timeout=ANSWER_SECONDS)
                self.counts[f"answered: {ready.source}"] += 1
            except NotFound:
                self.counts["refused"] += 1
            except Unavailable:
                self.counts["not answered in time"] += 1
            await asyncio.sleep(self.rng.uniform(0.0, 0.1))

    # -- changes --

    async def _change(self, services: DomainServices, dying: DomainServices) -> None:
        number = 0
        while time.monotonic() < self.ends:
            number += 1
            (name,) = self.rng.choices(list(MIX), [weight for weight, _ in MIX.values()])
            dies = name in DIE and self.rng.random() < 0.2
            began = time.time()
            try:
                written = await MIX[name][1](dying if dies else services, self.rng, number)
            except (Rejected, Unavailable) as fault:
                self.counts[f"not changed: {fault.code}"] += 1
            else:
                self._note(written, began)
                self.counts["changes whose writer died" if dies else "changes"] += 1
            await asyncio.sleep(self.rng.expovariate(CHANGES_A_SECOND))

    def _note(self, written: Any, began: float) -> None:
        for one in written if isinstance(written, tuple) else (written,):
            for change in one.changes:
                self.committed[change.change_id] = began
                if one.marked:
                    self.acknowledged[change.change_id] = time.time()

    # -- kills --

    async def _kill(self) -> None:
        """One worker after the other, in any order, with SIGKILL; each comes back."""
        while True:
            left = self.ends - time.monotonic()
            await asyncio.sleep(min(self.rng.uniform(4.0, 10.0), max(0.0, left)))
            if time.monotonic() >= self.ends:
                return
            worker = self.rng.choice(sorted(self.house.workers.values(), key=lambda one: one.name))
            await worker.kill()
            self.counts[f"killed: {worker.name}"] += 1
            await asyncio.sleep(self.rng.uniform(0.0, 2.0))
            await worker.start()

    # -- audit --

    async def _audit(self, auditor: Auditor, seen: Sightings) -> None:
        """Samples all the time; a difference is judged once every change that was there by then
        has been seen on its topic."""
        while time.monotonic() < self.ends:
            await asyncio.sleep(1 / SAMPLES_A_SECOND)
            if (sample := seen.sample()) is not None:
                await auditor.audit(sample)
            if not self._awaited(seen, GRACE_SECONDS):
                self._judge(auditor.judged())
        async with asyncio.timeout(PUBLISHED_SECONDS):
            while self._awaited(seen, 0.0):  # noqa: ASYNC110 - nobody tells of the last one
                await asyncio.sleep(0.2)
        self._judge(auditor.judged(all=True))

    def _awaited(self, seen: Sightings, seconds: float) -> bool:
        """Whether a change that is older than that was not seen on its topic yet."""
        if self.committed:
            for one in list(seen.happened)[-2_000:]:
                self.committed.pop(one.id, None)
        return any(at < time.time() - seconds for at in self.committed.values())

    def _judge(self, judged: Iterable[tuple[Difference, Sequence[str]]]) -> None:
        for difference, explained in judged:
            if not [one for one in explained if self._explains(one, difference)]:
                self.unexplained.append(told(difference, explained))

    def _explains(self, because: str, difference: Difference) -> bool:
        """A change that was acknowledged before the request was on its topic does not."""
        at = self.acknowledged.get(because.rsplit(" ", 1)[-1])
        return at is None or at * 1000 >= difference.asked.at_ms


def told(difference: Difference, explained: Sequence[str]) -> str:
    """What nothing explains, what was there to explain it, and both contexts."""
    served, built = (
        one.model_dump_json(exclude={"tags", "trace"}, exclude_none=True) if one else "not found"
        for one in (difference.served, difference.built)
    )
    asked = difference.asked
    return "\n".join(
        (
            f"{difference.served.source}: {', '.join(difference.sections)}",
            f"  asked at {asked.at_ms}: {asked.request.model_dump_json(exclude_unset=True)}",
            f"  inherited {difference.served.trace.inherited}; {difference.served.trace.remarks}",
            f"  too early to explain it: {', '.join(explained[:5])}",
            f"  served {served}",
            f"  built  {built}",
        )
    )


def table(soak: Soak, seen: Sightings, seconds: float) -> str:
    """All that was counted, a line each."""
    audited = seen.counts
    rows = {
        "seconds": round(seconds),
        **dict(sorted(soak.counts.items())),
        "served, seen by the audit": audited.served,
        "rebuilt": audited.rebuilt,
        "the same": audited.same,
        "differs, explained by a change": audited.rebuilt - audited.same - len(soak.unexplained),
        "skipped": audited.skipped,
        "unexplained": len(soak.unexplained),
    }
    return "\n".join(f"{name:34} {value:>9,}" for name, value in rows.items())
