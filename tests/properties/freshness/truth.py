"""What is true: every state that the database was in, and which of them an answer may be from.

After each commit every place is built from scratch. An answer is fresh if it is what was built in
some state, and no change after that state makes a difference to it which the request was owed:
one that was acknowledged, or applied, or was committed a proof's life before the request arrived,
or that the request names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine import keys
from context_engine.adapters.memory import MemoryCache, MemorySnapshots
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.reads import SqlDomain
from context_engine.builder import Builder, Limits
from context_engine.coordinates import effective, kept
from context_engine.engine import Answer, ContextEngine, Options
from context_engine.errors import NotFound
from context_engine.liveness import Assumed
from context_engine.models import ContextBuildInput
from context_engine.models.context import UNHASHED
from context_engine.ports import Look, SessionWrite
from context_engine.repository import ContextRepository, Lifetimes
from tests.properties.freshness.workspace import Place
from tests.support.world import SECRET

REFUSED = "refused"
PATIENCE_SECONDS = 60.0


class Stale(AssertionError):
    """Something was served that was known to be true no more."""


@dataclass(frozen=True)
class Said:
    """An answer by its content."""

    hash: str
    sections: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, answer: Answer) -> Said:
        told: dict[str, Any] = json.loads(answer.context)
        if told.get("session"):
            told["session"].pop("lastContextHash", None)
        named = {name: value for name, value in told.items() if name not in WIRE_UNHASHED}
        return cls(answer.context_hash, named)


WIRE_UNHASHED = {
    "".join(w.title() if i else w for i, w in enumerate(name.split("_"))) for name in UNHASHED
}


@dataclass
class Commit:
    """One change that is in the database."""

    ids: frozenset[str]
    """Of its rows in the outbox."""
    at_ms: int
    """Not before it, by the store's clock."""
    owed: bool = False
    """Acknowledged or applied."""
    matters: bool = False
    """To a place that is asked about."""
    tokens: frozenset[str] = frozenset()


class Truth:
    """All states, from the first; state n is that after commit n, counted from 1."""

    def __init__(self, database: AsyncEngine, places: Sequence[Place], life_ms: int) -> None:
        self._database, self._places, self._life_ms = database, places, life_ms
        self.commits: list[Commit] = []
        self.marked: set[str] = set()
        """Changes that the consumer has marked."""
        self._known: set[str] = set()
        self._states: list[dict[str, tuple[Said, ...]]] = []

    @property
    def now(self) -> int:
        return len(self.commits)

    async def begin(self) -> None:
        self._states.append(await self._built())

    async def look(self, now_ms: int) -> Commit | None:
        """A new state, if something was committed since the last look."""
        async with self._database.connect() as connection:
            ids = set((await connection.execute(select(t.outbox.c.id))).scalars())
        if not (new := ids - self._known):
            return None
        self._known |= new
        self.commits.append(commit := Commit(frozenset(new), now_ms))
        self._states.append(await self._built())
        commit.matters = self._states[-1] != self._states[-2]
        return commit

    def applied(self, ids: Iterable[str]) -> None:
        """The consumer has marked these."""
        found = set(ids)
        self.marked |= found
        for commit in self.commits:
            commit.owed = commit.owed or commit.ids <= found

    def owed(self, now_ms: int, tokens: Iterable[str]) -> frozenset[int]:
        """The changes that an answer to a request that arrives now must not be from before."""
        named = frozenset(tokens)
        return frozenset(
            n
            for n, commit in enumerate(self.commits, 1)
            if commit.owed
            or commit.at_ms + self._life_ms <= now_ms
            or not named.isdisjoint(commit.tokens)
        )

    def judge(self, place: Place, said: Said, owed: frozenset[int]) -> None:
        """Raises `Stale`. What was read in two parts is judged section by section."""
        if self._fresh(place, owed, lambda one: one.hash, said.hash):
            return
        old = [n for n in said.sections if not self._section_is_fresh(place, owed, said, n)]
        if old or not said.sections:
            what = ", ".join(old) or REFUSED
            raise Stale(
                f"{place.name}: {what} is of no state since {sorted(owed)} of {self.now}\n"
                f"{[[s.hash[:8] for s in state[place.name]] for state in self._states]},"
                f" said {said.hash[:8]}\n" + "\n".join(f"{n}: {said.sections[n]}" for n in old[:3])
            )

    def _section_is_fresh(self, place: Place, owed: frozenset[int], said: Said, name: str) -> bool:
        if name == "contextSummary":
            return all(
                self._fresh(place, owed, lambda one, line=line: line in _lines(one), True)  # type: ignore[misc]
                for line in _lines(said)
            )
        return self._fresh(
            place, owed, lambda one: json.dumps(one.sections.get(name)),
            json.dumps(said.sections[name]),
        )  # fmt: skip

    def _fresh(self, place: Place, owed: frozenset[int], part: Any, wanted: object) -> bool:
        variants = range(len(self._states[0][place.name]))
        return any(self._as_built(place, owed, part, wanted, which) for which in variants)

    def _as_built(
        self, place: Place, owed: frozenset[int], part: Any, wanted: object, which: int
    ) -> bool:
        for n in range(self.now, -1, -1):
            here = part(self._states[n][place.name][which])
            if wanted == here:
                return True
            if n in owed and here != part(self._states[n - 1][place.name][which]):
                return False
        return False

    async def _built(self) -> dict[str, tuple[Said, ...]]:
        return {place.name: await self._scratch(place) for place in self._places}

    async def _scratch(self, place: Place) -> tuple[Said, ...]:
        """A build from the database alone; with what a session had kept, and without."""
        told = [await self._build(place, None)]
        if place.kept is not None:
            told.append(await self._build(place, place.kept))
        return tuple(told)

    async def _build(self, place: Place, before: dict[str, Any] | None) -> Said:
        cache = MemoryCache()
        await cache.mark("w", frozenset(), create=True)
        request = ContextBuildInput.model_validate(place.request)
        if before is not None:
            await _remember(cache, request, {**place.request, **before})
        engine = ContextEngine(
            SqlDomain(self._database),
            ContextRepository(cache, MemorySnapshots(), Lifetimes()),
            Builder(Limits(tag_secret=SECRET)),
            liveness=Assumed(),
            build_timeout=PATIENCE_SECONDS,
        )
        try:
            return Said.of(await engine.build(request, Options(fresh=True)))
        except NotFound:
            return Said(REFUSED)


async def _remember(cache: MemoryCache, request: ContextBuildInput, before: dict[str, Any]) -> None:
    """Gives the request's session the coordinates of the turn before."""
    scope = keys.scope_of(
        request.workspace_id, request.user_id, request.session_id, request.conversation_id
    )
    seen = await cache.look(Look(scope, "none", "none", skip_entries=True))
    assert seen.moment is not None
    at = effective(ContextBuildInput.model_validate(before), None).at
    await cache.fill(seen.moment, [], SessionWrite(scope, kept(at), "then", 3_600))


def _lines(said: Said) -> list[str]:
    return str(said.sections.get("contextSummary", "")).splitlines()
