"""Commands that prepare a deployment: `migrate`, `topics`, `seed`, `schema`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from workers.cli.shared import Exit, JsonFlag, config, console, run, show_json, stderr
from workers.cli.terminal import PLAIN


def migrate() -> None:
    """Brings the database to this version's schema. Safe to run twice, and by two at once.

    Example: context-engine migrate
    """
    from context_engine.adapters.sql.migrate import upgrade

    settings = config()
    with console.status("migrating"):
        run(upgrade(settings.database_url.get_secret_value()))
    console.print("database is at this version's schema")


def topics(as_json: JsonFlag = False) -> None:
    """Makes the topics that are missing and checks those that are there.

    Example: context-engine topics --json
    """
    from events.topics import Topics, ensure

    settings = config()
    made = Topics.of(settings)
    with stderr.status("topics"):
        run(ensure(settings.kafka_bootstrap, made))
    if as_json:
        show_json([{"name": t.name, "partitions": t.partitions} for t in made.all()])
        return
    for topic in made.all():
        console.print(f"{topic.name:<36} {topic.partitions:>3} partitions", highlight=False)


def seed(as_json: JsonFlag = False) -> None:
    """Loads the workspace of a delivery team to play in, unless it is there.

    Example: context-engine seed
    """
    from context_engine import bootstrap
    from workers.seed import Seeded
    from workers.seed import seed as load

    settings = config()

    async def fill() -> Seeded:
        async with bootstrap.domain_services(settings) as services:
            return await load(services)

    with stderr.status("loading the workspace of a delivery team"):
        seeded = run(fill())
    if as_json:
        show_json({"created": seeded.created, "workspaceId": seeded.workspace_id})
        return
    word = "loaded" if seeded.created else "was there already"
    console.print(f"{seeded.workspace_id} {word}", highlight=False)


def schema(
    directory: Annotated[Path, typer.Argument(help="Where to write.")] = Path("docs/schema"),
    check: Annotated[bool, typer.Option("--check", help="Only say what is out of date.")] = False,
    asyncapi: Annotated[
        bool, typer.Option("--asyncapi", help="Print the AsyncAPI 3 document instead.")
    ] = False,
) -> None:
    """Writes the JSON Schema of every contract, or prints the AsyncAPI document.

    Example: context-engine schema docs/schema
    """
    from events.asyncapi import text
    from events.schema import stale, write

    if asyncapi:
        sys.stdout.write(text())
        return
    if check:
        old = stale(directory)
        for name in old:
            console.print(f"out of date: {name}", **PLAIN)
        raise typer.Exit(Exit.FAILED if old else Exit.OK)
    for path in write(directory):
        console.print(str(path), **PLAIN)
