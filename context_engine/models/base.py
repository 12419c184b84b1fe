"""What every contract shares: frozen, camelCase on the wire, bounded ids."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, JsonValue, StringConstraints
from pydantic.alias_generators import to_camel

SCHEMA_VERSION = "1.0"
"""Version of the contracts; raised when a field changes its meaning."""

ID_CHARS = 200
"""Longest id, in characters."""

Id = Annotated[
    str,
    StringConstraints(min_length=1, max_length=ID_CHARS, pattern=r"^[^\x00-\x1f\x7f]+$"),
]
"""An opaque id: 1 to 200 characters, no control characters."""

JsonObject = dict[str, JsonValue]


class Contract(BaseModel):
    """A frozen value whose JSON is camelCase. Unknown fields are ignored: producers move first."""

    model_config = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="ignore",
    )
