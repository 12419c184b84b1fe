"""Every input that can change an answer is in its key, and no two inputs meet by being joined."""

from __future__ import annotations

import fnmatch
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from context_engine import keys
from context_engine.adapters.redis.cache import MARKS_PATTERN
from context_engine.keys import Coordinates, Rendering, Scope, Tag, answers, scope_of
from context_engine.models.base import JsonObject

TRICKY = [
    "a",
    "b",
    ",",
    ":",
    '"',
    "a,b",
    'a","b',
    "a:b",
    "null",
    "[]",
    "{",
    "}",
    "}:marks",
    "%",
    "%2C",
]
"""Ids made of what joins and encodes, and of each other."""

ids = st.one_of(
    st.sampled_from(TRICKY),
    st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12),
)
maybe = st.none() | ids
lists = st.lists(ids, max_size=3).map(tuple)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "1", "null", *TRICKY]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(ids, inner, max_size=2),
    max_leaves=4,
)
coordinates = st.builds(
    Coordinates,
    workspace_id=ids,
    user_id=ids,
    session_id=maybe,
    conversation_id=maybe,
    project_id=maybe,
    table_ids=lists,
    view_id=maybe,
    task_id=maybe,
    team_id=maybe,
    organization_id=maybe,
    workflow_id=maybe,
    agent_stack=lists,
)
renderings = st.builds(
    Rendering,
    locale=st.sampled_from([None, "en", "zh-CN"]),
    timezone=st.sampled_from([None, "UTC", "Europe/Berlin"]),
    conversation_messages=st.integers(1, 3),
    compression_chars=st.integers(1, 3),
)


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that a whole context's key is made over."""

    at: Coordinates
    how: Rendering
    message: str | None
    metadata: JsonObject
    inherited: tuple[str, ...]
    strict: bool

    @property
    def scope(self) -> Scope:
        at = self.at
        return scope_of(at.workspace_id, at.user_id, at.session_id, at.conversation_id)

    @property
    def key(self) -> str:
        return keys.whole_key(
            self.scope,
            self.at,
            self.how,
            self.message,
            self.metadata,
            inherited=self.inherited,
            strict=self.strict,
        )

    def same_as(self, other: Inputs) -> bool:
        """Equal as JSON is: true is not 1, and an object has no order."""
        mine, theirs = (json.dumps(i.metadata, sort_keys=True) for i in (self, other))
        return mine == theirs and replace(self, metadata={}) == replace(other, metadata={})


inputs = st.builds(
    Inputs,
    at=coordinates,
    how=renderings,
    message=st.none() | st.just("") | st.text(max_size=20),
    metadata=st.dictionaries(ids, json_values, max_size=2),
    inherited=lists,
    strict=st.booleans(),
)


# -- cache keys --------------------------------------------------------------------------------


@given(inputs, inputs)
def test_whole_keys_are_equal_for_equal_inputs_only(one: Inputs, other: Inputs) -> None:
    assert (one.key == other.key) == one.same_as(other)


@given(inputs, st.data())
def test_changing_any_one_input_changes_the_whole_key(one: Inputs, data: st.DataObject) -> None:
    """Each field in turn, those of coordinates and rendering by themselves."""
    other = data.draw(inputs.filter(lambda o: not o.same_as(one)))
    for name in ("at", "how"):
        mine, theirs = getattr(one, name), getattr(other, name)
        for field in fields(mine):
            if (value := getattr(theirs, field.name)) != getattr(mine, field.name):
                changed = replace(one, **{name: replace(mine, **{field.name: value})})
                assert changed.key != one.key, f"{name}.{field.name} is not in the key"
    for name in ("message", "metadata", "inherited", "strict"):
        changed = replace(one, **{name: getattr(other, name)})
        if not changed.same_as(one):
            assert changed.key != one.key, f"{name} is not in the key"


ON_THE_SURFACE = {f.name for f in fields(Coordinates)} - {"session_id", "conversation_id"}


@given(coordinates, renderings, coordinates, renderings)
def test_surface_keys_hold_all_but_session_conversation_and_their_sizes(
    at: Coordinates, how: Rendering, other: Coordinates, otherwise: Rendering
) -> None:
    """Field by field: those that the next turn of a dialogue shares change it, no others do."""
    key = keys.surface_key(at, how)
    for field in fields(Coordinates):
        changed = replace(at, **{field.name: getattr(other, field.name)})
        same = changed == at or field.name not in ON_THE_SURFACE
        assert (keys.surface_key(changed, how) == key) == same, field.name
    for field in fields(Rendering):
        turned = replace(how, **{field.name: getattr(otherwise, field.name)})
        same = turned == how or field.name not in {"locale", "timezone"}
        assert (keys.surface_key(at, turned) == key) == same, field.name


@given(coordinates, renderings, st.data())
def test_the_order_of_tables_and_of_agents_counts(
    at: Coordinates, how: Rendering, data: st.DataObject
) -> None:
    """The first table is the one asked for; the outermost agent comes first."""
    some = data.draw(st.lists(ids, min_size=2, max_size=4, unique=True).map(tuple))
    turned = data.draw(st.permutations(some).map(tuple))
    assume(turned != some)
    for name in ("table_ids", "agent_stack"):
        one, other = (replace(at, **{name: order}) for order in (some, turned))  # type: ignore[arg-type]
        assert keys.surface_key(one, how) != keys.surface_key(other, how)


@given(inputs, st.text(min_size=1, max_size=5), st.integers(0, 100_000))
def test_the_whole_message_counts(one: Inputs, end: str, length: int) -> None:
    """However long: its last character too."""
    message = "x" * length
    assert replace(one, message=message).key != replace(one, message=message + end).key


@given(inputs, st.text(max_size=3).filter(lambda version: version != answers.BUILD_VERSION))
def test_another_version_of_the_builder_finds_nothing(one: Inputs, version: str) -> None:
    before = one.key, keys.surface_key(one.at, one.how)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "BUILD_VERSION", version)
        after = one.key, keys.surface_key(one.at, one.how)
    assert before[0] != after[0]
    assert before[1] != after[1]


@given(coordinates, renderings, inputs)
def test_a_surface_and_a_whole_context_never_meet(
    at: Coordinates, how: Rendering, one: Inputs
) -> None:
    assert keys.surface_key(at, how) != one.key


# -- scopes ------------------------------------------------------------------------------------

scopes = st.builds(scope_of, ids, ids, maybe, maybe)


@given(scopes, scopes)
def test_scope_keys_are_equal_for_equal_scopes_only(one: Scope, other: Scope) -> None:
    assert (one.key == other.key) == (one == other)


@given(ids, ids, ids, ids)
def test_one_session_id_never_joins_users_workspaces_or_kinds(
    workspace: str, user: str, other: str, session: str
) -> None:
    assume(user != other)
    mine = scope_of(workspace, user, session, None)
    assert mine.key != scope_of(workspace, other, session, None).key
    assert mine.key != scope_of(other, user, session, None).key or other == workspace
    assert mine.key != scope_of(workspace, user, None, session).key
    assert mine.key != scope_of(workspace, user, None, None).key


@given(ids, ids, maybe, maybe)
def test_the_session_comes_first_then_the_conversation(
    workspace: str, user: str, session: str | None, conversation: str | None
) -> None:
    scope = scope_of(workspace, user, session, conversation)
    assert scope.session_id == (session if session is not None else conversation)
    assert scope.has_session == (scope.session_id is not None)


# -- tags --------------------------------------------------------------------------------------

MAKERS: dict[str, Callable[..., Tag]] = {
    name: function
    for name, function in vars(keys).items()
    if inspect.isfunction(function)
    and not name.startswith("_")
    and function.__annotations__.get("return") == "Tag"
}
CONSTANTS = {keys.EVERYTHING, keys.WORKSPACE, keys.ANY_VIEW}


@st.composite
def made(draw: st.DrawFn) -> tuple[tuple[str, ...], Tag]:
    """A tag, and what it was made of."""
    name = draw(st.sampled_from(sorted(MAKERS)))
    args = [draw(ids) for _ in inspect.signature(MAKERS[name]).parameters]
    return (name, *args), MAKERS[name](*args)


def test_the_makers_of_tags_are_found() -> None:
    assert {"schema", "value", "access", "conversation"} <= set(MAKERS)
    assert len(MAKERS) >= 16


@given(made(), made())
def test_tags_are_equal_only_where_kind_and_ids_are(
    one: tuple[tuple[str, ...], Tag], other: tuple[tuple[str, ...], Tag]
) -> None:
    assert (one[1] == other[1]) == (one[0] == other[0])
    assert one[1] not in CONSTANTS


@given(ids, ids)
def test_every_kind_of_tag_is_another_tag(first: str, second: str) -> None:
    """Two makers never share a prefix and an id."""
    tags = [
        make(*(first, second)[: len(inspect.signature(make).parameters)])
        for make in MAKERS.values()
    ]
    assert len({*tags, *CONSTANTS}) == len(MAKERS) + len(CONSTANTS)


@given(made())
def test_a_tag_can_be_stored_beside_others(tag: tuple[tuple[str, ...], Tag]) -> None:
    """Entries join their tags by newlines, and marks lie beside fields that begin with #."""
    assert "\n" not in tag[1]
    assert "#" not in tag[1]
    assert tag[1].isascii()


@given(ids, ids, st.lists(made().map(lambda m: m[1]), unique=True, max_size=5))
def test_sealed_tags_can_be_compared_and_tell_nothing(
    workspace: str, other: str, tags: list[Tag]
) -> None:
    sealed = keys.seal("secret", workspace, tags)
    assert sealed == keys.seal("secret", workspace, reversed(tags))
    assert len(set(sealed)) == len(tags)
    assert set(sealed).isdisjoint(keys.seal("another secret", workspace, tags))
    if other != workspace:
        assert set(sealed).isdisjoint(keys.seal("secret", other, tags))
    assert all(len(s) == 32 and int(s, 16) >= 0 for s in sealed)


# -- names in Redis ----------------------------------------------------------------------------


def slot_of(name: str) -> str:
    """What Redis hashes: between the first { and the first } after it, if anything is there."""
    start = name.find("{")
    end = name.find("}", start + 1)
    return name[start + 1 : end] if start >= 0 and end > start + 1 else name


@st.composite
def names(draw: st.DrawFn, scope: st.SearchStrategy[Scope] = scopes) -> dict[str, str]:
    """One name of each kind, of one workspace."""
    who = draw(scope)
    key, tag = keys.digest(draw(ids)), draw(made())[1]
    return {
        "marks": keys.marks_name(who.workspace_id),
        "whole": keys.whole_name(who, key),
        "lead": keys.lead_name(keys.whole_name(who, key)),
        "surface": keys.surface_name(who.workspace_id, key),
        "session": keys.session_name(who),
        "memory": keys.memory_name(who),
        "index": keys.index_name(who.workspace_id, tag),
        "sessions": keys.sessions_name(who.workspace_id, who.user_id),
    }


@given(st.data(), ids)
def test_all_names_of_a_workspace_lie_in_one_slot_and_never_in_anothers(
    data: st.DataObject, workspace: str
) -> None:
    """No id can close the brace, and none can be empty in it."""
    here = data.draw(names(st.builds(scope_of, st.just(workspace), ids, maybe, maybe)))
    there = data.draw(names())
    assert len({slot_of(name) for name in here.values()}) == 1
    assert all(keys.workspace_in(name) == workspace for name in here.values())
    if keys.workspace_in(there["marks"]) != workspace:
        assert slot_of(there["marks"]) != slot_of(here["marks"])
        assert set(here.values()).isdisjoint(there.values())


@given(names(), names())
def test_names_of_two_kinds_never_meet(one: dict[str, str], other: dict[str, str]) -> None:
    for kind, name in one.items():
        assert all(name != theirs for k, theirs in other.items() if k != kind)


@given(scopes, scopes)
def test_two_scopes_share_no_name_of_their_own(one: Scope, other: Scope) -> None:
    assume(one != other)
    key = keys.digest("the same key")
    assert keys.whole_name(one, key) != keys.whole_name(other, key)
    assert keys.session_name(one) != keys.session_name(other)
    assert keys.memory_name(one) != keys.memory_name(other)


@given(ids, ids, ids, ids)
def test_two_users_share_no_index_of_sessions(w1: str, u1: str, w2: str, u2: str) -> None:
    assert (keys.sessions_name(w1, u1) == keys.sessions_name(w2, u2)) == ((w1, u1) == (w2, u2))


@given(scopes, ids)
def test_a_name_tells_whose_it_is(who: Scope, text: str) -> None:
    key = keys.digest(text)
    for name in (keys.whole_name(who, key), keys.session_name(who), keys.memory_name(who)):
        assert keys.scope_key_in(name) == who.key
    for name in (
        keys.surface_name(who.workspace_id, key),
        keys.marks_name(who.workspace_id),
        keys.sessions_name(who.workspace_id, who.user_id),
        keys.index_name(who.workspace_id, keys.schema(text)),
    ):
        assert keys.scope_key_in(name) is None


@given(names())
def test_the_walk_over_all_marks_finds_marks_and_nothing_else(some: dict[str, str]) -> None:
    for kind, name in some.items():
        assert fnmatch.fnmatchcase(name, MARKS_PATTERN) == (kind == "marks")


@given(st.sampled_from(["", "marks", "{", "}:", "}:{"]))
def test_a_name_not_made_here_has_no_workspace(name: str) -> None:
    with pytest.raises(ValueError, match=r"context_engine\.keys"):
        keys.workspace_in(name)
