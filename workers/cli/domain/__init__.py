"""`domain …`: the domain services, by hand. Every write prints its token and its changes."""

from __future__ import annotations

from dataclasses import asdict

import typer

from workers.cli.domain.records import record
from workers.cli.domain.rights import grant, member
from workers.cli.domain.shared import with_services
from workers.cli.domain.tables import message, policy, table
from workers.cli.shared import JsonFlag, console, show_json

app = typer.Typer(no_args_is_help=True, help="The domain services, by hand.")
for _name, _group in (
    ("member", member), ("grant", grant), ("record", record),
    ("message", message), ("table", table), ("policy", policy),
):  # fmt: skip
    app.add_typer(_group, name=_name)


@app.command("seed")
def seed_(as_json: JsonFlag = False) -> None:
    """Makes the demo workspace, unless it is there.

    Example: context-engine domain seed
    """
    from workers.seed import seed

    made = with_services(seed)
    if as_json:
        show_json(asdict(made))
        return
    word = "made" if made.created else "was there already"
    console.print(f"{made.workspace_id} {word}: admin {made.admin_id}, viewer {made.viewer_id}")
    console.print(f"tables {', '.join(made.table_ids)}", highlight=False)
