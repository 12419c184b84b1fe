"""Reads the messages of the change topics, and finds out whose the unreadable ones are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import JsonValue, ValidationError

from context_engine.changes import AnyChange, domain_change
from context_engine.errors import InvalidRequest
from context_engine.models import invalid
from events import cloudevents, messages
from events.messages import Heartbeat
from events.records import RawMessage

UNDECODABLE = "\ufffd"


@dataclass(frozen=True, slots=True)
class Poison:
    """A message that is no domain change, and why."""

    raw: RawMessage
    error: InvalidRequest

    @property
    def workspace_ids(self) -> tuple[str, ...]:
        """Whose it may be: what its key names, and what its data does. None: nobody knows."""
        found = (_key_of(self.raw), *_named_in(self.raw.value))
        return tuple(dict.fromkeys(one for one in found if one is not None))


def _key_of(raw: RawMessage) -> str | None:
    return _an_id(raw.key.decode(errors="replace")) if raw.key else None


def _named_in(value: bytes | None) -> Iterator[str | None]:
    """Workspaces that a message names, in binary or in structured mode."""
    for part in cloudevents.peek(value):
        yield _an_id(part.get("workspaceId", part.get("workspace_id")))


def _an_id(value: JsonValue) -> str | None:
    found = cloudevents.usable_id(value)
    return None if found is None or UNDECODABLE in found else found


def read(raw: RawMessage) -> AnyChange | Heartbeat | Poison:
    """What `raw` says, or why it says nothing. Raises nothing that a message could cause."""
    try:
        event = cloudevents.decode(raw)
        try:
            if event.type == messages.HEARTBEAT:
                return Heartbeat.model_validate_json(event.data)
            change = domain_change.validate_json(event.data)
        except ValidationError as error:
            raise invalid(error) from error
        if event.type != messages.change_type(change):
            raise InvalidRequest(f"does not fit the data's type {change.type}", field="ce_type")
    except InvalidRequest as error:
        return Poison(raw, error)
    except RecursionError:
        return Poison(raw, InvalidRequest("nested too deep; flatten it", field="value"))
    return change
