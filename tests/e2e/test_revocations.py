"""A right taken back is refused by every other process, from its acknowledgement on."""

from __future__ import annotations

import pytest

from context_engine.bootstrap import Parts
from context_engine.settings import Settings
from events.client import ContextClient
from tests.support.revocations import revocations
from tests.support.world import World
from workers.house import until_live

TRIES = 200
USERS = 8


@pytest.mark.timeout(180)
async def test_a_revocation_that_was_acknowledged_is_never_served_again(
    client: ContextClient, parts: Parts, world: World, settings: Settings
) -> None:
    """Served out of the cache by a worker, with requests on their way while this process takes
    the right back: who asks after the acknowledgement is refused, each time, whether the whole
    context was cached or its surface. `make bench BENCH=revocations` tries 10,000 times."""
    await until_live(settings)
    asked = await revocations(world, parts.services, client, users=USERS)
    found = await asked.tried(TRIES)
    assert (found.tries, found.served) == (TRIES, 0)
    assert found.cached > TRIES / 2, "it has to be about what was cached"
