"""Names of time zones: one answer at every door, and for what is stored."""

from __future__ import annotations

from zoneinfo import available_timezones

import pytest
from pydantic import ValidationError

from context_engine import policy, view_filters
from context_engine.adapters.baserow import filters
from context_engine.adapters.sql.services import rows
from context_engine.errors import InvalidRequest
from context_engine.facts import FieldFacts
from context_engine.models import ContextBuildInput
from context_engine.zones import zone_of

NONE_HERE = (
    "localtime", "LocalTime", "posixrules", "Factory", "right/UTC", "posix/UTC",
    "Posix/Europe/Oslo", "Mars/Base", "", "America", "../../etc/localtime", "Europe/../UTC",
    "UTC\x00", "x" * 65, "é",
)  # fmt: skip
DUE = FieldFacts(id="due", name="Due", type="date", primary=False)


@pytest.mark.parametrize("name", sorted(available_timezones() - {"localtime", "Factory"}))
def test_every_zone_of_the_iana_list_is_known(name: str) -> None:
    zone = zone_of(name)
    assert zone is not None
    assert zone.key == name


@pytest.mark.parametrize("name", NONE_HERE)
def test_what_is_no_zone_everywhere_is_refused_at_every_door(name: str) -> None:
    """A machine's own zone, another clock's, a path: a request, a user, a policy, a file's filter;
    stored in a filter it is a filter that cannot be read."""
    assert zone_of(name) is None
    with pytest.raises(ValidationError, match="timezone"):
        ContextBuildInput.model_validate({"userId": "u", "workspaceId": "w", "timezone": name})
    with pytest.raises(InvalidRequest, match="timezone"):
        rows.zone(name)
    now = {"now": {"unit": "today", "tz": name}}
    pred = policy.parse({"cmp": {"ref": "field:due", "op": "eq", "operand": now}})
    with pytest.raises(InvalidRequest, match=r"now.tz: unknown time zone; use an IANA name"):
        policy.check_predicate(pred, "t", {"t": {"due": DUE}}.get)
    days = {"op": "date_is", "days": {"tz": name}}
    where = {"where": {"field": "due", "value": {"cell": "due", "kind": "time"}, "test": days}}
    with pytest.raises(InvalidRequest, match="filter"):
        view_filters.parse(where)
    if name:  # Baserow's own empty name is UTC
        with pytest.raises(filters._Unreadable):
            filters._zone(name)
