"""Decisions are kept by all that they were made of: whatever may change one is in their key."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from context_engine import access, policy
from context_engine.access import VisibleScope, kept
from context_engine.errors import NotFound
from context_engine.facts import ConversationFacts, Facts, PolicyFacts, ReadTables, TableFacts
from context_engine.keys import Coordinates
from tests.support.facts import (
    cmp,
    field,
    grant,
    link,
    member,
    policy_of,
    read,
    table,
    view,
)
from tests.support.frozen import changeable

AT = Coordinates("w", "u", table_ids=("t",))
NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
LOOKUP = policy.AttrLookup(table="t", key_field="f", value_field="f")


def stored(pred: Any, **more: Any) -> Facts:
    """A table with one restrictive policy for its viewers."""
    one = PolicyFacts(
        id="p", subjects=[{"type": "role", "id": "viewer"}], pred=pred, mode="restrictive"
    )
    return member("viewer", table("t", policies=(one,), **more))


PLAIN = stored(cmp("f", literal="a"))
DATED = stored(cmp("f", op="lte", now={"unit": "today", "tz": "UTC"}))


def decide(facts: Facts, at: Coordinates = AT, now: datetime = NOON, **more: Any) -> VisibleScope:
    """Of facts that are read anew: never the same object."""
    anew = Facts.model_validate(read(facts, at).model_dump() | {"now": now})
    return access.resolve(anew, at, **more)


def test_equal_facts_have_the_decision_that_was_made_of_them() -> None:
    """Whenever they were read, and in whichever session."""
    first = decide(PLAIN)
    assert decide(PLAIN, now=NOON + timedelta(days=400)) is first
    assert decide(PLAIN, replace(AT, session_id="s")) is first


@pytest.mark.parametrize(
    "other",
    [
        stored(cmp("f", literal="b")),
        stored(cmp("f", literal=1)),
        stored(cmp("f", literal=1.0)),
        stored(cmp("f", literal=True)),
        stored(cmp("f", literal="a"), views=(view("v", "restricted"),)),
        PLAIN.model_copy(update={"team_ids": ("g",)}),
        PLAIN.model_copy(update={"user": None if PLAIN.user is None else PLAIN.user.model_copy(
            update={"timezone": "Asia/Tokyo"})}),
    ],
)  # fmt: skip
def test_other_facts_are_decided_anew(other: Facts) -> None:
    """Those too that Python holds to be equal: 1, 1.0 and true."""
    assert decide(other) is decide(other)
    assert decide(other) is not decide(PLAIN)


def test_what_python_holds_to_be_equal_means_what_it_says() -> None:
    """A policy that is edited from 1 to true is another."""
    for literal in (1, True, 1.0, 1, True):
        (way,) = decide(stored(cmp("f", literal=literal))).tables[0].ways
        (found,) = policy.comparisons(way.rows.pred)
        assert repr(found.operand) == repr(policy.Literal_(literal=literal))


def test_numbers_that_are_not_finite_are_told_apart() -> None:
    """From null too: it is what `empty` is stored with, and they are garbage, which denies."""
    odd = [float("inf"), float("-inf"), float("nan")]
    (way,) = decide(stored(cmp("f", op="empty", literal=None))).tables[0].ways
    assert way.rows.pred is not False
    found = [decide(stored(cmp("f", op="empty", literal=one))) for one in odd]
    assert [one.tables[0].ways[0].rows.pred for one in found] == [False] * 3
    assert len({id(one) for one in found}) == 3


def test_of_tables_that_one_text_told_its_digest_is_enough() -> None:
    """Any other tuple of them is spelled out: one that was changed has no digest."""
    (one,), text = PLAIN.tables, f"told {PLAIN.tables[0].policies[0].id}"
    (other,) = stored(cmp("f", literal="b")).tables

    def told(tables: tuple[TableFacts, ...]) -> VisibleScope:
        return access.resolve(read(PLAIN.model_copy(update={"tables": tables}), AT), AT, now=NOON)

    first = told(ReadTables.of((one,), text))
    assert told(ReadTables.of((one,), text)) is first
    assert told(ReadTables.of((other,), f"{text} otherwise")) is not first
    assert told((*ReadTables.of((one,), text)[:0], other)).tables != first.tables
    assert told(ReadTables.of((one,), text)[:1]) is decide(PLAIN)


def test_what_rules_ask_of_the_user_is_looked_for_once() -> None:
    """In tables that one text told; by the view that is looked at, whose filter may ask too."""
    attr = {"table": "x", "keyField": "k", "valueField": "v"}
    asking = table("t", views=(view("v", filter=cmp("f", attr=attr)),))
    facts = member("viewer").with_tables(ReadTables.of((asking,), "asking"))
    found = [access.lookups(facts, replace(AT, view_id=id)) for id in ("v", None, "v", None)]
    assert [len(one) for one in found] == [1, 0, 1, 0]
    assert found[2] is found[0]


def test_asking_for_views_that_are_not_there_fills_no_memory() -> None:
    """What is kept with tables is bounded by what they have."""
    tables = ReadTables.of((table("t", views=(view("v", "collaborative"),)),), "told")
    facts = member("viewer").with_tables(tables)
    for name in (None, "v", *(f"missing-{number}" for number in range(100))):
        access.lookups(facts, replace(AT, view_id=name))
    assert len(tables.made) == 2


def test_other_coordinates_and_attributes_are_decided_anew() -> None:
    """1 and true in a list too; what was inherited is settled each time."""
    first = decide(PLAIN)
    assert decide(PLAIN, replace(AT, table_ids=("t", "t"))) is not first
    gone = replace(AT, table_ids=("t", "gone"))
    absent = frozenset({"table_ids"})
    assert decide(PLAIN, gone, inherited=absent) is decide(PLAIN, gone, inherited=absent)
    with pytest.raises(NotFound):
        decide(PLAIN, gone)
    found = [decide(PLAIN, attributes={LOOKUP: (one,)}) for one in (1, True, "1", 1)]
    assert found[3] is found[0]
    assert len({id(one) for one in (first, *found)}) == 4


def test_a_decision_ends_with_its_day() -> None:
    """And holds for no time before it was made."""
    first = decide(DATED)
    midnight = datetime(2026, 3, 30, tzinfo=UTC)
    assert first.until == midnight
    assert decide(DATED, now=midnight - timedelta(microseconds=1)) is first
    assert decide(DATED, now=NOON - timedelta(microseconds=1)) is not first
    later = decide(DATED, now=midnight)
    assert later.until == midnight + timedelta(days=1)
    assert decide(DATED, now=midnight) is later


def test_the_dialogue_is_no_part_of_a_decision() -> None:
    """It is told of beside it, and not kept: the surface is the same for whoever listens."""
    talk = ConversationFacts(id="c", title="C", is_participant=True)
    at = replace(AT, conversation_id="c")
    first = decide(PLAIN)
    heard = decide(PLAIN.model_copy(update={"conversation": talk}), at)
    assert heard.conversation is not None
    assert heard.tables[0] is first.tables[0]
    assert heard.made is first.made
    assert decide(PLAIN).conversation is None
    with pytest.raises(NotFound):
        decide(PLAIN, at)


def test_what_was_made_of_a_scope_stays_with_it() -> None:
    """A copy that says something else has none of it."""
    first = decide(PLAIN)
    first.made["statement"] = "text"
    assert decide(PLAIN).made == {"statement": "text"}
    assert replace(first, tables=()).made == {}


def test_what_is_kept_is_nobodys_to_change() -> None:
    """A table in sight is one object for every request: with its views, the ways in and what they
    filter, however the facts were told."""
    counted = {"where": {"field": "f", "value": {"count": {"field": "l", "table": "t"}},
                         "test": {"op": "higher_than", "to": 1}}}  # fmt: skip
    linked = {"linkedAny": {"field": "l", "pred": True}}
    views = tuple(
        view(f"{kind}{n}", kind, filter=filter)
        for kind in ("restricted", "collaborative")
        for n, filter in enumerate((counted, {"all": [cmp("f", literal="a")]}, linked, None))
    )
    lists = (cmp("f", "in", literal=["a", "b"]), cmp("f", "in", user="team_ids"))
    rule = policy_of({"any": [*lists, cmp("f", user="id")]})
    facts = member("viewer", table("t", field(), link("l", "t"), policies=(rule,), views=views))
    granted = facts.model_copy(
        update={"grants": tuple(grant("viewer", f"view:{v.id}") for v in views)}
    )
    for view_id in ("restricted0", "collaborative1", "collaborative2"):
        scope = decide(granted, replace(AT, view_id=view_id))
        assert len(scope.tables[0].ways) == 5
        assert scope.view is not None
        assert list(changeable((scope.tables, scope.view))) == []
    assert list(changeable(facts.tables)) == []


def test_as_many_tables_are_kept_as_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those used last; one that is more than all is not kept."""
    monkeypatch.setattr(kept, "MOST_TABLES", 4)  # two of one table
    many = [stored(cmp("f", literal=f"only here {n}")) for n in range(3)]
    one, two = decide(many[0]), decide(many[1])
    assert decide(many[0]) is one
    decide(many[2])
    assert decide(many[0]) is one
    assert decide(many[1]) is not two
    monkeypatch.setattr(kept, "MOST_TABLES", 1)
    assert decide(many[0]) is one
    assert decide(many[2]) is not decide(many[2])


def test_what_was_found_of_a_user_takes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision holds it: ten thousand values are megabytes. What is too much costs no other."""
    kept.DECISIONS.forget()
    monkeypatch.setattr(kept, "MOST_TABLES", 8)
    first = decide(PLAIN)
    found = {LOOKUP: tuple(f"a value of this user: {n}" for n in range(10_000))}
    assert decide(PLAIN, attributes=found) is not decide(PLAIN, attributes=found)
    assert decide(PLAIN) is first
    monkeypatch.setattr(kept, "MOST_TABLES", 64)
    assert decide(PLAIN, attributes=found) is decide(PLAIN, attributes=found)


def test_a_decision_in_the_place_of_one_that_ended_takes_its_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Day after day: the others stay."""
    kept.DECISIONS.forget()
    monkeypatch.setattr(kept, "MOST_TABLES", 4)  # two of one table
    first = decide(PLAIN)
    for day in range(3):
        decide(DATED, now=NOON + timedelta(days=day))
    assert decide(PLAIN) is first


def test_what_is_forgotten_is_decided_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """And counts no more."""
    first = decide(PLAIN)
    kept.DECISIONS.forget()
    monkeypatch.setattr(kept, "MOST_TABLES", 2)  # one table, and what is decided beside it
    again = decide(PLAIN)
    assert again is not first
    assert decide(PLAIN) is again


def test_none_are_kept_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many fit as are allowed."""
    monkeypatch.setattr(kept, "MOST_TABLES", 2)
    monkeypatch.setattr("context_engine.access.resolution.DECISIONS", kept.Decisions())
    assert decide(PLAIN) is decide(PLAIN)


def test_facts_that_json_does_not_spell_are_decided_anew() -> None:
    """Garbage closes its table, as ever, and breaks nothing."""
    deep: Any = True
    for _ in range(400):
        deep = {"not": deep}
    for pred in (deep, cmp("f", literal="\ud800")):
        facts = PLAIN.model_copy(update={"tables": (table(), _with(pred))})
        at = replace(AT, table_ids=("t", "other"))
        found = [access.resolve(read(facts, at), at, now=NOON) for _ in range(2)]
        assert found[0] is not found[1]
        for scope in found:
            assert [one.rows[0].pred for one in scope.tables] == [True, False]


def _with(pred: Any) -> TableFacts:
    one = PolicyFacts.model_construct(
        id="odd", subjects=[{"type": "user", "id": "u"}], pred=pred, mode="restrictive"
    )
    return table("other").model_copy(update={"policies": (one,)})
