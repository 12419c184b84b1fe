"""The helpdesk by hand: `python -m examples.own_product --help`.

`tour` shows it in one process, `worker` answers requests over the bus from the product's file.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from os import EX_CONFIG, EX_UNAVAILABLE
from pathlib import Path

from context_engine import bootstrap
from context_engine.engine import ContextEngine
from context_engine.errors import NotFound, Unavailable
from context_engine.models import AgentContext, ContextBuildInput
from context_engine.settings import DEV_ENV, SettingsError, load
from examples.house import run
from examples.own_product import Database, Helpdesk, HelpdeskDomain, SqliteSnapshots, marking


async def tour(database: Database) -> None:
    """A ticket is counted, another is opened, a person leaves a queue."""
    await database.prepare()
    domain, snapshots = HelpdeskDomain(database), SqliteSnapshots(database)
    settings = load(DEV_ENV if DEV_ENV.exists() else None)
    async with bootstrap.over(domain, snapshots, settings) as house:
        helpdesk = Helpdesk(database, marking(house.cache))
        await helpdesk.found("harbour", "Harbour Support", lead="lea")
        await helpdesk.add_person("harbour", "amir", "agent")
        await helpdesk.open_queue("harbour", "billing", "Billing")
        await helpdesk.join_queue("harbour", "billing", "amir")
        await helpdesk.open_ticket("harbour", "billing", "Charged twice", by="gus")
        for _ in range(3):  # the first build of a company is not cached: nothing was marked yet
            await tell(house.engine, "amir")
        await helpdesk.open_ticket("harbour", "billing", "No receipt", by="gus")
        await tell(house.engine, "amir")
        await helpdesk.leave_queue("harbour", "billing", "amir")
        try:
            await tell(house.engine, "amir")
        except NotFound as gone:
            print(f"{gone.code}: {gone.message}")


async def tell(engine: ContextEngine, user: str) -> None:
    where = ContextBuildInput(user_id=user, workspace_id="harbour", table_ids=("billing",))
    context = AgentContext.model_validate_json((await engine.build(where)).context)
    (table,) = context.tables
    print(f"{context.source:<6} {table.name}: {table.record_count.value} tickets in sight")


async def worker(database: Database) -> int:
    """The build worker over this product's ports, until SIGTERM; the exit code."""
    from workers import build, logs
    from workers.signals import stop_requested

    stop, settings = stop_requested(), load(DEV_ENV if DEV_ENV.exists() else None)
    logs.configure(False)
    await database.prepare()
    house = bootstrap.over(HelpdeskDomain(database), SqliteSnapshots(database), settings)
    return await build.run(
        settings, ready=lambda: print("build ready", flush=True), stop=stop, over=house
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.own_product")
    parser.add_argument("what", nargs="?", choices=("tour", "worker"), default="tour")
    parser.add_argument("--database", type=Path, help="the product's SQLite file")
    given = parser.parse_args()
    if given.what == "worker":
        if given.database is None:
            parser.error("worker needs --database")
        try:
            sys.exit(asyncio.run(worker(Database(given.database))))
        except SettingsError as wrong:
            parser.exit(EX_CONFIG, f"{wrong}\n")
        except Unavailable as away:
            parser.exit(EX_UNAVAILABLE, f"{away.message}\n")
    with tempfile.TemporaryDirectory(prefix="helpdesk-") as home:
        run(lambda: tour(Database(given.database or Path(home) / "helpdesk.sqlite")))


if __name__ == "__main__":
    main()
