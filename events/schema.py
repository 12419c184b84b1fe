"""JSON Schema of every contract: written to docs/schema, and checked against the code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from context_engine.changes import domain_change
from context_engine.models import (
    AgentContext,
    ContextBuildInput,
    ToolContextState,
    ToolRouterRequest,
)
from events.messages import BuildFailed, BuildRequest, ContextEvicted, ContextReady

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_Mode = Literal["validation", "serialization"]

CONTRACTS: dict[str, tuple[TypeAdapter[Any], _Mode]] = {
    "ContextBuildInput": (TypeAdapter(ContextBuildInput), "validation"),
    "AgentContext": (TypeAdapter(AgentContext), "serialization"),
    "BuildRequest": (TypeAdapter(BuildRequest), "validation"),
    "ContextReady": (TypeAdapter(ContextReady), "serialization"),
    "BuildFailed": (TypeAdapter(BuildFailed), "serialization"),
    "DomainChange": (domain_change, "validation"),
    "ContextEvicted": (TypeAdapter(ContextEvicted), "serialization"),
    "ToolRouterRequest": (TypeAdapter(ToolRouterRequest), "validation"),
    "ToolContextState": (TypeAdapter(ToolContextState), "validation"),
}
"""What is sent to the engine is described as it is read, what it sends as it is written."""


def schema_of(name: str) -> dict[str, Any]:
    """The JSON Schema of one contract. Raises `KeyError` for a name that is none."""
    adapter, mode = CONTRACTS[name]
    return {"$schema": DIALECT, "title": name, **adapter.json_schema(by_alias=True, mode=mode)}


def write(directory: Path) -> list[Path]:
    """Writes one file for each contract; the paths written."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for name in CONTRACTS:
        path = directory / f"{name}.json"
        path.write_text(_text(name))
        paths.append(path)
    return paths


def stale(directory: Path) -> list[str]:
    """Names of the contracts whose file is missing or differs from the code."""
    paths = ((name, directory / f"{name}.json") for name in CONTRACTS)
    return [name for name, path in paths if not path.exists() or path.read_text() != _text(name)]


def _text(name: str) -> str:
    return json.dumps(schema_of(name), ensure_ascii=False, indent=2, sort_keys=True) + "\n"
