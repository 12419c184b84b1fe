"""Faults in the words of who typed the command: `--user`, where a contract says `userId`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic.alias_generators import to_snake

# typer has no public name for the command that runs; pyproject.toml bounds its version.
from typer._click.globals import get_current_context

SUBJECT = ("user", "team", "role")
SCOPE = ("view_id", "table_id", "workspace")
KNOWN_AS = {
    "subject_id": SUBJECT,
    "subject_type": SUBJECT,
    "scope_id": SCOPE,
    "scope_type": SCOPE,
    "agent_stack": ("agent",),
    "expected_version": ("expect",),
}
"""Arguments of the services by the parameters of commands that may have given them. The others
have the same name on both sides, but for `_id`."""


def typed_place(place: str | None) -> str | None:
    """`place` with its first word as the option or argument that it came from.

    `cells.fld-x` becomes `--set fld-x`; what no parameter of the running command gave stays.
    """
    context = get_current_context(silent=True)
    if place is None or context is None:
        return place
    root, *rest = place.removeprefix("options.").split(".")
    found = _parameter(context, to_snake(root))
    if found is None:
        return place
    inner = ".".join(word for word in rest if not word.isdigit())
    return f"{named(found)} {inner}".rstrip()


def named(parameter: Any) -> str:
    """`--table`; or `RECORD_IDS`, as the help has it."""
    options = [one for one in parameter.opts if one.startswith("--")]
    if parameter.param_type_name == "argument" or not options:
        return str(parameter.metavar or parameter.name).upper()
    return str(options[0])


def _parameter(context: Any, name: str) -> Any | None:
    """The parameter that an argument of this name came from: of several the one that was given."""
    by_name = {one.name: one for one in context.command.params}
    there = [by_name[word] for word in _words(name) if word in by_name]
    given = [one for one in there if context.params.get(one.name) is not None]
    return next(iter(given or there), None)


def _words(name: str) -> Iterable[str]:
    yield name
    yield from KNOWN_AS.get(name, ())
    for end in ("_id", "_ids"):
        yield name.removesuffix(end)
        yield f"{name.removesuffix(end)}_id"
