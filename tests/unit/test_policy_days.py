"""Days in their zones: which one it is, when it begins, and until when an answer about it holds."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine import policy
from context_engine.facts import FieldFacts
from context_engine.view_filters import next_midnight

ZONES = sorted(available_timezones() - {"localtime", "Factory"})
MINUTE = timedelta(minutes=1)
HOLDS = {
    id: FieldFacts(id=id, name=id, type=type, primary=False, linked_table_id=to)
    for id, type, to in (
        ("at", "datetime", None), ("on", "date", None), ("f", "text", None), ("l", "link", "x"),
    )
}  # fmt: skip


def now_is(unit: str, zone: str | None = None) -> policy.Pred:
    return policy.parse(
        {"cmp": {"ref": "field:f", "op": "eq", "operand": {"now": {"unit": unit, "tz": zone}}}}
    )


def user(now: datetime, zone: str | None = None) -> policy.UserOperands:
    return policy.UserOperands(id="u", now=now, timezone=zone)


def resolve(pred: policy.Pred, operands: policy.UserOperands) -> policy.Pred:
    """In tables whose fields hold times, texts, and links to one another."""
    return policy.resolve(pred, operands, {"t": HOLDS, "x": HOLDS}.get, "t")


def day(pred: policy.Pred, operands: policy.UserOperands) -> date:
    found = resolve(pred, operands)
    assert isinstance(found, policy.Cmp)
    assert isinstance(found.cmp.operand, policy.OnDay)
    return found.cmp.operand.day


def end(pred: policy.Pred, operands: policy.UserOperands) -> datetime:
    found = policy.until(pred, operands)
    assert found is not None
    return found


# -- against the calendar ----------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["today", "week"])
@given(
    zone=st.sampled_from(ZONES),
    now=st.datetimes(datetime(1975, 1, 1), datetime(2037, 1, 1), timezones=st.just(UTC)),
)
def test_an_answer_holds_until_its_day_is_another(unit: str, zone: str, now: datetime) -> None:
    """Up to the last microsecond the day is the same, and then it is not, in any zone."""
    pred = now_is(unit, zone)
    today, until = day(pred, user(now)), end(pred, user(now))
    local = now.astimezone(ZoneInfo(zone)).date()
    assert today == (local if unit == "today" else local - timedelta(days=local.weekday()))
    assert now < until <= now + timedelta(days=8 if unit == "week" else 2)
    assert day(pred, user(until - timedelta(microseconds=1))) == today
    assert day(pred, user(until)) != today
    between = now + (until - now) / 3
    assert day(pred, user(between)) == today


@pytest.mark.parametrize("zone", ZONES)
def test_a_day_begins_when_the_clock_says_so(zone: str) -> None:
    """Minute by minute around the midnights of days on which clocks change."""
    there = ZoneInfo(zone)
    for changed in changes(there, 2005, 2019):
        for after in (0, 1):
            first = changed.astimezone(there).date() + timedelta(days=after)
            turns = policy.begins(first, zone)
            assert len(turns) % 2 == 1
            for turn in turns:
                for moment in (turn - timedelta(seconds=1), turn, turn + MINUTE):
                    reached = sum(moment >= one for one in turns) % 2 == 1
                    assert reached == (moment.astimezone(there).date() >= first), moment


def changes(zone: ZoneInfo, first: int, last: int) -> list[datetime]:
    """Moments near which the zone's clocks change, within six hours."""
    step = timedelta(hours=6)
    at, stop = datetime(first, 1, 1, tzinfo=UTC), datetime(last, 1, 1, tzinfo=UTC)
    found, before = [], at.astimezone(zone).utcoffset()
    while at < stop:
        at += step
        offset = at.astimezone(zone).utcoffset()
        if offset != before:
            found.append(at)
        before = offset
    return found


# -- by name -----------------------------------------------------------------------------------


def test_a_day_that_never_was() -> None:
    """Apia went from the 29th to the 31st of December 2011."""
    pred = now_is("today", "Pacific/Apia")
    jump = datetime(2011, 12, 30, 10, tzinfo=UTC)
    before = user(jump - MINUTE)
    assert (day(pred, before), end(pred, before)) == (date(2011, 12, 29), jump)
    assert day(pred, user(jump)) == date(2011, 12, 31)
    assert policy.begins(date(2011, 12, 30), "Pacific/Apia") == (jump,)
    assert policy.begins(date(2011, 12, 31), "Pacific/Apia") == (jump,)


def test_a_midnight_that_never_was_and_one_that_is_late() -> None:
    """Sao Paulo went from midnight to one o'clock, and from midnight back to eleven."""
    zone = "America/Sao_Paulo"
    assert policy.begins(date(2018, 11, 4), zone) == (datetime(2018, 11, 4, 3, tzinfo=UTC),)
    assert policy.begins(date(2018, 2, 18), zone) == (datetime(2018, 2, 18, 3, tzinfo=UTC),)
    twice = user(datetime(2018, 2, 18, 2, 30, tzinfo=UTC))  # half past eleven again
    assert day(now_is("today", zone), twice) == date(2018, 2, 17)
    assert end(now_is("today", zone), twice) == datetime(2018, 2, 18, 3, tzinfo=UTC)


def test_a_day_that_begins_twice() -> None:
    """St. John's went back at one minute past midnight: the day before came again."""
    zone = "America/St_Johns"
    first = datetime(2006, 10, 29, 2, 30, tzinfo=UTC)
    turns = (first, first + MINUTE, first + timedelta(hours=1))
    assert policy.begins(date(2006, 10, 29), zone) == turns
    pred = now_is("today", zone)
    seen = [day(pred, user(turn)) for turn in (first - MINUTE, *turns)]
    assert seen == [date(2006, 10, d) for d in (28, 29, 28, 29)]
    assert [end(pred, user(turn)) for turn in turns[:2]] == list(turns[1:])


def test_the_operands_zone_comes_before_the_users() -> None:
    """Without either, nobody knows which day it is."""
    late = datetime(2026, 1, 1, 23, tzinfo=UTC)
    tokyo, berlin = "Asia/Tokyo", "Europe/Berlin"
    assert day(now_is("today"), user(late, tokyo)) == date(2026, 1, 2)
    assert day(now_is("today", "UTC"), user(late, tokyo)) == date(2026, 1, 1)
    assert end(now_is("today"), user(late, berlin)) == datetime(2026, 1, 2, 23, tzinfo=UTC)
    assert end(now_is("today", tokyo), user(late, berlin)) == datetime(2026, 1, 2, 15, tzinfo=UTC)


def test_the_earliest_of_several_ends_the_answer() -> None:
    """Of days in linked rows too; without a `now` an answer holds for good."""
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    days = [now_is("week", "UTC"), now_is("today", "Europe/Berlin"), now_is("today", "Asia/Tokyo")]
    linked = policy.LinkedAny(linked_any=policy.Linked(field="l", pred=days.pop()))
    every = policy.All(all=(*days, policy.Not(not_=linked)))
    assert policy.until(every, user(noon)) == datetime(2026, 1, 1, 15, tzinfo=UTC)
    assert policy.until(policy.All(all=(True,)), user(noon)) is None


@pytest.mark.parametrize(
    "zone",
    [None, "", "Mars/Base", "../../etc/passwd", "America", "Europe/Berlin\x00", "x" * 5000, "é"],
)
def test_a_zone_that_does_not_exist_denies(zone: str | None) -> None:
    """In the predicate and at the user, who may have none; nothing else is raised."""
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    asked = [(now_is("today"), user(noon, zone))]
    asked += [(now_is("today", zone), user(noon, "UTC"))] if zone is not None else []
    for pred, operands in asked:
        with pytest.raises(policy.Unresolvable):
            resolve(pred, operands)
        with pytest.raises(policy.Unresolvable):
            policy.until(pred, operands)


def test_days_go_on_at_the_edges_of_the_calendar() -> None:
    """A week's Monday may be in another month or year."""
    new_year = datetime.combine(date(2026, 1, 1), time(), UTC)
    assert day(now_is("week", "UTC"), user(new_year)) == date(2025, 12, 29)
    assert end(now_is("week", "UTC"), user(new_year)) == datetime(2026, 1, 5, tzinfo=UTC)


# -- literal days ------------------------------------------------------------------------------

ORDER = ("eq", "ne", "lt", "lte", "gt", "gte")


def compared(ref: str, op: str, literal: str) -> policy.Pred:
    return policy.parse({"cmp": {"ref": ref, "op": op, "operand": {"literal": literal}}})


def operand(pred: policy.Pred, zone: str | None = "Asia/Tokyo") -> policy.Operand:
    (found,) = policy.comparisons(resolve(pred, user(datetime(2026, 1, 1, tzinfo=UTC), zone)))
    return found.operand


@pytest.mark.parametrize("op", ORDER)
@pytest.mark.parametrize("ref", ["field:at", "sys:created_at"])
def test_a_literal_day_beside_a_time_is_one_of_the_users_zone(ref: str, op: str) -> None:
    """Without a zone, of UTC; what was made of it holds for good. In linked rows as well."""
    pred = compared(ref, op, "2026-03-29")
    for zone in ("Asia/Tokyo", None):
        wanted = policy.OnDay(day=date(2026, 3, 29), tz=zone or "UTC")
        assert operand(pred, zone) == wanted
        linked = policy.LinkedAny(linked_any=policy.Linked(field="l", pred=pred))
        found = resolve(linked, user(datetime(2026, 1, 1, tzinfo=UTC), zone))
        assert isinstance(found, policy.LinkedAny)
        assert [c.operand for c in policy.comparisons(found.linked_any.pred)] == [wanted]
    assert policy.until(pred, user(datetime(2026, 1, 1, tzinfo=UTC))) is None


def test_a_literal_day_beside_anything_else_is_a_text() -> None:
    """An index serves it beside a date; other texts, and what no time is compared with, stay."""
    for ref, op, text in (
        *((ref, op, "2026-03-29") for ref in ("field:on", "field:f") for op in ORDER),
        *(("field:gone", op, "2026-03-29") for op in ORDER),
        *(("sys:created_by", op, "2026-03-29") for op in ORDER),
        *(("field:at", op, "2026-03-29") for op in ("in", "text_contains", "has_any")),
        *(("field:at", "eq", text) for text in ("2026-02-30", "20260329", "2026-3-29", "x", "")),
        ("field:at", "gt", "2026-03-29T10:00:00Z"),
    ):
        assert operand(compared(ref, op, text)) == policy.Literal_(literal=text)


@pytest.mark.parametrize("zone", ["", "Mars/Base"])
def test_a_literal_day_in_no_zone_denies(zone: str) -> None:
    """Where the user's is wrong; beside a date it takes none."""
    assert operand(compared("field:on", "eq", "2026-03-29"), zone)
    with pytest.raises(policy.Unresolvable):
        operand(compared("field:at", "eq", "2026-03-29"), zone)


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Etc/GMT+12", "America/Sao_Paulo"])
def test_days_begin_near_both_ends_of_time(zone: str) -> None:
    """At midnight of the zone, once; the first day of all began before."""
    there, days = ZoneInfo(zone), [timedelta(days=n) for n in range(1, 9)]
    for first in (*(date.min + n for n in days), *(date.max - n for n in days), date.max):
        (turn,) = policy.begins(first, zone)
        near = datetime.combine(first, time(), UTC)
        settled = min(max(near, datetime(1, 1, 9, tzinfo=UTC)), datetime(9999, 12, 20, tzinfo=UTC))
        assert turn == near - (settled.astimezone(there).utcoffset() or timedelta())


def test_a_day_of_a_views_filter_ends_where_clocks_are_set_back_over_midnight() -> None:
    """One minute into Sunday it is Saturday again in St. John's, and what was counted is not so."""
    sunday = datetime(2010, 11, 7, 2, 30, tzinfo=UTC)
    ends = [timedelta(minutes=-1), timedelta(seconds=30), timedelta(minutes=2)]
    until = [next_midnight("America/St_Johns", sunday + after) for after in ends]
    assert until == [sunday, sunday + timedelta(minutes=1), sunday + timedelta(hours=1)]
