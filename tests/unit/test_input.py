"""The input contract, as an entry point meets it."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from context_engine.errors import InvalidRequest
from context_engine.models import ContextBuildInput


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("message", "\ud800"),
        ("projectId", "p\ud800"),
        ("metadata", {"a": ["\ud800"]}),
        ("metadata", {"\udfff": 1}),
        ("metadata", {"a": [float("nan")]}),
        ("metadata", {"a": float("inf")}),
    ],
)
def test_what_no_wire_can_carry_is_refused_with_its_field(field: str, value: JsonValue) -> None:
    """A body that Python's json reads may hold what no wire can carry: a typed error, at once."""
    with pytest.raises(InvalidRequest, match=field):
        ContextBuildInput.from_http({}, {"workspaceId": "w", field: value}, user_id="u")


def test_metadata_beyond_ascii_is_kept() -> None:
    """Real text, astral characters too, passes and can be sent."""
    values: JsonValue = {"项目": "港口 🚢"}
    made = ContextBuildInput.from_http({}, {"workspaceId": "w", "metadata": values}, user_id="u")
    assert ContextBuildInput.model_validate_json(made.model_dump_json()).metadata == values
