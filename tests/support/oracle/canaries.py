"""Where the canaries of a workspace stand, and which of them a text holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from tests.support.oracle.model import Workspace

CANARY_LENGTH = 15
"""`cny` and 12 hexadecimal digits."""

Path = tuple[str | int, ...]


def canaries(workspace: Workspace) -> dict[str, frozenset[Path]]:
    """Where in the workspace each canary stands; who may see those places the rules say."""
    found: dict[str, set[Path]] = {}
    for path, text in _texts(workspace, ()):
        for canary in canaries_in(text):
            found.setdefault(canary, set()).add(path)
    return {canary: frozenset(places) for canary, places in found.items()}


def canaries_in(text: str) -> Iterator[str]:
    """Every canary that a text holds."""
    at = text.find("cny")
    while at >= 0:
        one = text[at : at + CANARY_LENGTH]
        if len(one) == CANARY_LENGTH and all(c in "0123456789abcdef" for c in one[3:]):
            yield one
        at = text.find("cny", at + 3)


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Every text of a value, and the attributes, keys and places that lead to it."""
    if isinstance(value, str):
        yield path, value
    elif is_dataclass(value):
        for field in fields(value):
            yield from _texts(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(key, (*path, key, "key"))
            yield from _texts(item, (*path, key))
    elif isinstance(value, tuple | list):
        for number, item in enumerate(value):
            yield from _texts(item, (*path, number))
