"""Everything at once, for a while: traffic, changes, killed workers, and an audit beside them.

`SOAK_MINUTES` in the environment says for how long; one without it.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from tests.support.soak import Soak, table
from tests.support.stack import running_stack
from workers.house import furnished, settings_of

SECONDS = 60 * float(os.environ.get("SOAK_MINUTES") or 1)
SEED = int(os.environ.get("SOAK_SEED") or int.from_bytes(os.urandom(4)))


@pytest.mark.timeout(SECONDS + 300)
async def test_nothing_served_differs_from_the_database_without_a_change_that_explains_it(
    tmp_path: Path,
) -> None:
    """In a house of its own, whose workers are killed one after the other and come back; some
    writers die between their commit and their mark."""
    print(f"\nseed {SEED}: SOAK_SEED={SEED} draws the same")
    async with running_stack() as stack:
        env = stack.env()
        async with furnished(settings_of(env), env, say=print, logs=tmp_path) as house:
            soak, began = Soak(house, random.Random(SEED)), time.monotonic()
            seen = await soak.run(SECONDS)
    print(table(soak, seen, time.monotonic() - began))
    print(*soak.unexplained, sep="\n")
    assert not soak.unexplained
    assert seen.counts.rebuilt > SECONDS / 10
    assert sum(n for name, n in soak.counts.items() if name.startswith("killed")) > SECONDS / 60
    assert soak.counts["answered: cache"] > 0
