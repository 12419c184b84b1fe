"""docs/commands.md, from the command line itself."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import getdoc
from typing import Any

import typer

from workers.cli.main import app
from workers.reference import markdown
from workers.reference.markdown import cell, code, table

Command = Any  # typer's own class for it is not public, and not the same in all its versions

HEAD = """
`context-engine --help` and `context-engine COMMAND --help` say the same. Every command takes the
addresses from the [settings](settings.md); [exit codes](errors.md#exit-codes) say how it ended.
"""


def page() -> str:
    root = typer.main.get_command(app)
    return markdown.page(
        "Commands",
        HEAD,
        *(_section(name, command) for name, command in leaves(root, "context-engine")),
    )


def leaves(command: Command, name: str) -> Iterator[tuple[str, Command]]:
    """Every command that does something, by its whole name."""
    inside = getattr(command, "commands", None)
    if inside is None:
        yield name, command
        return
    for word, one in inside.items():
        yield from leaves(one, f"{name} {word}")


def _section(name: str, command: Command) -> str:
    about, _, example = (getdoc(command.callback) or "").partition("Example:")
    parts = [f"## {name}", " ".join(about.split())]
    shown = [one for one in command.params if one.name != "help" and not one.hidden]
    if shown:
        parts.append(table(("argument", "default", "meaning"), map(_parameter, shown)))
    if example.strip():
        parts.append(f"```sh\n{' '.join(example.split())}\n```")
    return "\n\n".join(parts)


def _parameter(one: Any) -> tuple[str, str, str]:
    names = " ".join((*one.opts, *one.secondary_opts))
    if one.param_type_name == "argument":
        names = str(one.metavar or one.name).upper()
    default = "required" if one.required else _default(one.default)
    repeated = " May be repeated." if one.multiple else ""
    return code(names), default, cell(f"{one.help or ''}{repeated}")


def _default(value: object) -> str:
    if value is None or value is False or value == [] or value == ():
        return ""
    return code(f"{value:g}" if isinstance(value, float) else str(value))
