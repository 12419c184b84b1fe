"""One fault under traffic: what is watched while it lasts, and what is said of it after."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from events.producer import Producer
from tests.faults.ledger import Ledger
from tests.faults.offsets import Offsets
from tests.faults.scene import Scene
from tests.faults.traffic import Traffic
from workers.process import ExitCode

CHOSEN = [one.strip() for one in os.environ.get("FAULTS", "").split(",") if one.strip()]
"""What `make faults` runs: `all`, or parts of tests' names. Nothing in the short form."""
JUDGES_FIGURES = bool(CHOSEN)
RATE = float(os.environ.get("FAULTS_RATE") or (50 if CHOSEN else 20))
"""Requests a second; changes and writes are fewer by as much as in a product that is used."""
LOUD = {int(ExitCode.UNAVAILABLE), int(ExitCode.STALLED)}
"""How a worker may leave: with a code that says why, for a supervisor to start it again."""
SETTLE_SECONDS = 300.0
"""How long the last answers may take once nothing is broken any more: until then they are late,
after it lost."""


@dataclass(slots=True)
class Row:
    """A line of the table."""

    fault: str
    sent: int = 0
    answered: int = 0
    refused: int = 0
    dead: int = 0
    lost: int = 0
    duplicates: int = 0
    recovered: float | None = None
    """Longest time in seconds until all was served again."""
    load: float = 0.0
    """Processes that wanted to run, on average over the last minute: a machine has few cores."""
    ok: bool = False
    notes: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """What did not hold."""

    def json(self) -> dict[str, Any]:
        return asdict(self)


REPORT: list[Row] = []
"""Of this session, in the order run."""


@dataclass(slots=True)
class Run:
    """Traffic over a scene, with its ledger and the groups' offsets."""

    scene: Scene
    row: Row
    ledger: Ledger
    offsets: Offsets
    traffic: Traffic
    before: dict[str, tuple[int, int]]
    """Of each worker at the start: lines of its log, and how often it had ended."""
    final_refusals: int | None = 0
    """How many may be refused for good; None for any number."""

    def check(self, holds: bool, words: str) -> None:
        """Notes what does not hold; the rest is looked at all the same."""
        if not holds:
            self.row.broken.append(words)

    def figure(self, holds: bool, words: str) -> None:
        """As `check`, for what a machine at its limit cannot hold: judged in the long form."""
        if JUDGES_FIGURES:
            self.check(holds, words)
        elif not holds:
            self.note(words)

    def note(self, words: str) -> None:
        self.row.notes.append(words)

    async def recovers(self, since: float, within: float) -> float:
        """Waits until every partition has answered what was sent since then, and nothing is
        late; the seconds it took, which are to be `within` where figures are judged."""
        requests = self.scene.topics.build_requests
        everywhere = range(requests.partitions)
        await self.ledger.until(
            lambda: self.ledger.served(since, requests.name, everywhere), 3 * within + 60
        )
        took = time.monotonic() - since
        self.row.recovered = round(max(self.row.recovered or 0.0, took), 1)
        self.figure(took <= within, f"served again after {took:.1f} s, not {within:g} s")
        return took

    def close(self) -> None:
        """Accounts for every id."""
        ledger, row = self.ledger, self.row
        row.sent = len(ledger.sent) - len(ledger.unsure)
        row.answered, row.refused = ledger.count("answered"), ledger.count("refused")
        row.dead, row.lost = ledger.count("dead"), len(ledger.open)
        row.duplicates, row.load = sum(ledger.duplicates.values()), round(os.getloadavg()[0], 1)
        self.check(not row.lost, f"lost: {list(ledger.open)[:3]}")
        self.check(not ledger.wrong, f"another's content: {ledger.wrong[:3]}")
        ahead = self.offsets.ahead(ledger.sent.values())
        self.check(not ahead, f"{len(ahead)} committed before they were handled: {ahead[:3]}")
        back = self.offsets.backwards(self.scene.topics.build_requests.name)
        self.check(not back, f"commits went back: {back[:3]}")
        self.check(self.offsets.looks > 0, "commits were never seen")
        final = ledger.final_refusals
        if self.final_refusals is not None and len(final) > self.final_refusals:
            self.check(False, f"{len(final)} refused for good: {ledger.refusals}")
        self._exits()
        if ledger.duplicates:
            twice = (f"{n} of {topic}" for topic, n in sorted(ledger.duplicates.items()))
            self.note(f"twice: {', '.join(twice)}")
        if ledger.unsure:
            self.note(f"{len(ledger.unsure)} not acknowledged to their sender")
        if ledger.refusals:
            self.note(", ".join(f"{n} {code}" for code, n in sorted(ledger.refusals.items())))

    def _exits(self) -> None:
        """How workers ended by themselves: with a code and a line that say why, no traceback."""
        codes: Counter[tuple[str, int]] = Counter()
        for label, one in self.scene.workers.items():
            lines, exits = self.before.get(label, (0, 0))
            codes.update((one.worker.name, left.code) for left in one.left[exits:])
            traced = [line for line in one.said()[lines:] if line.startswith("Traceback")]
            self.check(not traced, f"{len(traced)} tracebacks in the log of {label}")
        bad = sorted({code for _, code in codes if code >= 0 and code not in LOUD})
        self.check(not bad, f"workers left with {bad}")
        if codes:
            told = (f"{name} with {code} x{n}" for (name, code), n in sorted(codes.items()))
            self.note(f"left: {', '.join(told)}")


@asynccontextmanager
async def faults(
    scene: Scene,
    name: str,
    *,
    requests: float = RATE,
    changes: float = RATE / 16,
    writes: float = RATE / 50,
    fresh: int = 5,
    settle: float = SETTLE_SECONDS,
) -> AsyncIterator[Run]:
    """Traffic runs while the block does; then every id is accounted for. A row in any case.

    Raises AssertionError with everything that did not hold.
    """
    settings = scene.settings
    row = Row(name)
    REPORT.append(row)
    producer = Producer(settings.kafka_bootstrap, client_id="faults", timeout=20)
    ledger = Ledger(settings, scene.topics)
    groups = {
        settings.build_group: [scene.topics.build_requests],
        settings.invalidation_group: scene.topics.changes(),
    }
    offsets = Offsets(settings.kafka_bootstrap, groups)
    traffic = Traffic(ledger, producer, scene.topics, scene.parts.services)
    before = {label: (len(one.said()), len(one.left)) for label, one in scene.workers.items()}
    made = Run(scene, row, ledger, offsets, traffic, before)
    await producer.start()
    await ledger.start()
    watching = asyncio.create_task(offsets.watch())
    try:
        traffic.start(requests, changes, writes, fresh=fresh)
        try:
            yield made
        except Exception as error:
            row.broken.append(f"{type(error).__name__}: {error}"[:500])
            raise
        finally:
            await traffic.stop()
        await ledger.settled(settle)
        await asyncio.sleep(1.0)  # what is told twice is told soon after; the last commits are seen
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        made.close()
        row.ok = not row.broken
        if CHOSEN:
            print(f"\n{row}", flush=True)
        await ledger.stop()
        await producer.stop()
    assert row.ok, "; ".join(row.broken)
