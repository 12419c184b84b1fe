"""Validates what the tests see on the bus against the committed JSON Schemas."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from jsonschema import Draft202012Validator

from events import cloudevents, messages
from events.records import RawMessage

SCHEMAS = Path(__file__).parents[2] / "docs" / "schema"

BY_TYPE = {
    messages.BUILD_REQUESTED: "BuildRequest",
    messages.READY: "ContextReady",
    messages.BUILD_FAILED: "BuildFailed",
    messages.EVICTED: "ContextEvicted",
}


@cache
def validator(name: str) -> Draft202012Validator:
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def validate_message(raw: RawMessage) -> str:
    """Raises for a message that breaks its committed schema; the event's type."""
    event = cloudevents.decode(raw)
    name = BY_TYPE.get(event.type, "DomainChange")
    validator(name).validate(json.loads(event.data))
    return event.type
