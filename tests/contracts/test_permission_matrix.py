"""The matrix of docs/permissions.md is what the services and the engine do.

`WRITE_MATRIX=1` in the environment writes it again.
"""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.sql.services import DomainServices
from tests.support.matrix import Marks, Trial, furnish, marked, tables

PAGE = Path(__file__).parents[2] / "docs" / "permissions.md"


async def test_everybody_may_do_what_the_page_says(database: AsyncEngine) -> None:
    """Every action by every role, held on the workspace, the table or a view, and behind agents.

    What is done is undone, and what is refused left no trace: the world is as it was.
    """
    await furnish(DomainServices(database, Marks(), ids_as_given=True))
    trial = Trial(database)
    before = await trial.extent()
    made = marked(PAGE.read_text(), await tables(trial))
    assert await trial.extent() == before
    if os.environ.get("WRITE_MATRIX"):
        PAGE.write_text(made)
    assert PAGE.read_text() == made, "WRITE_MATRIX=1 writes the matrix again"
