"""What is hidden answers as what is missing: code, words, size, statements and trace."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.redis import RedisCache
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.reads import SqlDomain
from context_engine.engine import ContextEngine, Options
from context_engine.errors import NotFound
from context_engine.keys import Coordinates
from context_engine.models import ContextBuildInput
from tests.support.hidden import CASES, HIDDEN, MISSING, coordinates, hide
from tests.support.world import Statements, World, engine_over

OF_ONE_BUILD = re.compile(r'"(contextId|contextHash|generatedAt|scopeKey)":"[^"]*"')
SEALED = re.compile(r'"[0-9a-f]{32}"')
AGE = re.compile(r'"ageMs":\d+')


@dataclass(frozen=True, slots=True)
class Told:
    """All that one request lets its user know."""

    code: str
    words: str
    """The error's message, or the whole context, but for the id asked for and ids of the build."""
    statements: tuple[str, ...]
    """The first word of each."""


@pytest.fixture
async def world(database: AsyncEngine) -> World:
    made = World(database)
    await made.furnish()
    await hide(made)
    return made


@pytest.fixture
def engine(world: World, cache: RedisCache) -> ContextEngine:
    return engine_over(world.database, cache)


async def told(
    world: World, engine: ContextEngine, case: str, which: str, options: Options
) -> Told:
    user, _ = CASES[case]
    asked = ContextBuildInput.model_validate(
        {"userId": user, "workspaceId": "w", **coordinates(case, which)}
    )
    async with Statements(world.database) as statements:
        try:
            code, said = "ok", (await engine.build(asked, options)).context.decode()
        except NotFound as error:
            # With all that it carries: whoever embeds the engine holds the error itself.
            code, said = error.code, f"{type(error).__name__} {sorted(vars(error).items())}"
    return Told(code, _alike(said, which), tuple(s.split(maxsplit=1)[0] for s in statements.seen))


def _alike(said: str, which: str) -> str:
    for pattern in (OF_ONE_BUILD, SEALED, AGE):
        said = pattern.sub("...", said)
    return said.replace(which, "?")


@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
@pytest.mark.parametrize("case", CASES)
async def test_hidden_reads_as_missing(
    world: World, engine: ContextEngine, case: str, strict: bool
) -> None:
    """Built, asked again out of the cache, and built afresh."""
    options = Options(strict=strict)
    fatal = strict or case.split(maxsplit=1)[0] in {"table", "agent", "conversation"}
    for kind in (options, options, Options(fresh=True, strict=strict)):
        hidden = await told(world, engine, case, HIDDEN, kind)
        missing = await told(world, engine, case, MISSING, kind)
        assert hidden == missing
        assert hidden.code == ("not_found" if fatal else "ok")


@pytest.mark.parametrize("user", ["bob", "ana"])
async def test_a_hidden_table_is_told_of_as_a_missing_one(world: World, user: str) -> None:
    """In as many parts: whether there is a table, or a right on it, takes no time to read."""
    here = {"workspace_id": "w", "scope_type": "table", "scope_id": "t0", "subject_type": "user"}
    await world.add(t.grants, {**here, "subject_id": "bob", "role": "none"})
    facts = {}
    async with SqlDomain(world.database).snapshot() as reads:
        for id in ("t0", "gone", "zz"):
            facts[id] = await reads.facts(Coordinates("w", user, table_ids=(id,)), tail=0)
    assert facts["t0"].named == ("t0",)
    assert facts["gone"].named == facts["zz"].named == ("",)
    assert {len(one.grants) for one in facts.values()} == {1}
    assert [g.scope_id for g in facts["gone"].grants] == [""]
    assert [g.scope_id for g in facts["t0"].grants] == ["t0" if user == "bob" else ""]
