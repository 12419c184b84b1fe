"""`domain …`: the domain services, by hand. A write says whether its mark stands."""

from __future__ import annotations

import typer

from workers.cli.domain.fields import field, field_permission
from workers.cli.domain.grants import grant
from workers.cli.domain.members import member
from workers.cli.domain.people import conversation, message, user
from workers.cli.domain.policies import policy
from workers.cli.domain.records import record
from workers.cli.domain.shared import with_services
from workers.cli.domain.tables import table
from workers.cli.domain.teams import team
from workers.cli.domain.views import view
from workers.cli.shared import JsonFlag, camel, console, show_json
from workers.cli.terminal import PLAIN

app = typer.Typer(
    no_args_is_help=True,
    help=(
        "The domain services, by hand. A write tells its version, and at which clock of the"
        " workspace it marked what it makes untrue: cached contexts end there."
    ),
)
for _name, _group in (
    ("user", user), ("member", member), ("team", team), ("grant", grant),
    ("table", table), ("field", field), ("field-permission", field_permission),
    ("view", view), ("record", record), ("policy", policy),
    ("conversation", conversation), ("message", message),
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
        show_json(camel(made))
        return
    word = "made" if made.created else "was there already"
    console.print(f"{made.workspace_id} {word}: admin {made.admin_id}, viewer {made.viewer_id}")
    console.print(f"tables {', '.join(made.table_ids)}", **PLAIN)
    console.print(f"teams {', '.join(made.team_ids)}; agents {', '.join(made.agent_ids)}", **PLAIN)
