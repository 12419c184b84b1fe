"""Keys, tags and names as they are written down, where other processes and releases find them."""

from __future__ import annotations

import pytest

from context_engine import keys
from context_engine.keys import Coordinates, Rendering, Scope, Tag, scope_of

AT = Coordinates(
    "w", "u", session_id="s", conversation_id="c", project_id="p", table_ids=("t", "x"),
    view_id="v", task_id="k", team_id="g", organization_id="o", workflow_id="f",
    agent_stack=("a", "b"),
)  # fmt: skip
HOW = Rendering("de", "Europe/Berlin", 20, 6000)


def test_tags_are_a_language_of_their_own() -> None:
    """Workers and consumers of two releases share marks: another spelling is another vocabulary."""
    spelled = {
        keys.EVERYTHING: "everything",
        keys.WORKSPACE: "workspace",
        keys.ANY_VIEW: "views-any",
        keys.schema("t"): "schema:t",
        keys.views("t"): "views:t",
        keys.rows("t"): "rows:t",
        keys.value("t", "f"): "value:t:f",
        keys.any_value("t"): "value-any:t",
        keys.links_to("t"): "links-to:t",
        keys.access("u"): "access:u",
        keys.teams_of("u"): "teams-of:u",
        keys.team("g"): "team:g",
        keys.user("u"): "user:u",
        keys.organization("o"): "organization:o",
        keys.project("p"): "project:p",
        keys.tasks_of("p"): "tasks-of:p",
        keys.task("k"): "task:k",
        keys.workflow("f"): "workflow:f",
        keys.agent("a"): "agent:a",
        keys.conversation("c"): "conversation:c",
    }
    assert {tag: str(tag) for tag in spelled} == spelled
    assert keys.value("a:b", "-_.~/%é") == "value:a%3Ab:-_.~%2F%25%C3%A9"


def test_cache_keys_change_with_the_version_of_the_code_only() -> None:
    """The same input in the next release finds the same entry; what must not raises
    `BUILD_VERSION`, and these digests with it."""
    scope = scope_of("w", "u", "s", "c")
    assert keys.BUILD_VERSION == "6"
    assert keys.digest("é", None, 1, ("a", {"b": 1, "a": 2})) == (
        "e8896cfb622c7d52879b7f39138d7e52d34b9cf95d86a14e8245efc859683a8e"
    )
    assert scope.key == ("d64926f3d0f26607a0d8313846750d5f94df5d6107c37378113b8f57511de48b")
    assert keys.surface_key(AT, HOW) == (
        "f2d8086005d332dc63bba78382250595a7295338bc30625438dbab39f85431ae"
    )
    whole = keys.whole_key(scope, AT, HOW, "hello", {"z": 1, "a": [None]}, inherited=("view_id",))
    assert whole == "059f438b0d1ca166c416cb7b82ebcd048c8bbf02d963a16fb0a3bd04331badda"
    assert whole == keys.whole_key(
        scope, AT, HOW, "hello", {"a": [None], "z": 1}, inherited=("view_id",), strict=False
    )
    assert whole != keys.whole_key(
        scope, AT, HOW, "hello", {"a": [None], "z": 1}, inherited=("view_id",), strict=True
    )


@pytest.mark.parametrize(
    ("session", "conversation", "kind", "id", "own"),
    [
        ("s", "c", "session", "s", True),
        ("s", None, "session", "s", True),
        (None, "c", "conversation", "c", True),
        (None, None, "anonymous", None, False),
    ],
)
def test_a_scope_is_its_session_else_its_conversation(
    session: str | None, conversation: str | None, kind: str, id: str | None, own: bool
) -> None:
    """Without either it is anonymous, and has no session of its own."""
    scope = scope_of("w", "u", session, conversation)
    assert scope == Scope("w", "u", kind, id)  # type: ignore[arg-type]
    assert scope.has_session is own


def test_names_in_redis_are_a_language_of_their_own() -> None:
    """Sessions outlive a release, and an eviction finds what another process has stored."""
    scope = scope_of("w}1", "u", "s", None)
    assert keys.marks_name("w}1") == "ctx:{w%7D1}:marks"
    assert keys.whole_name(scope, "K") == f"ctx:{{w%7D1}}:whole:{scope.key}:K"
    assert keys.surface_name("w", "K") == "ctx:{w}:surface:K"
    assert keys.session_name(scope) == f"ctx:{{w%7D1}}:session:{scope.key}"
    assert keys.memory_name(scope) == f"ctx:{{w%7D1}}:memory:{scope.key}"
    assert keys.index_name("w", keys.rows("t")) == "ctx:{w}:index:rows:t"
    assert keys.sessions_name("w", "u:1") == "ctx:{w}:sessions:u%3A1"
    assert keys.scope_key_in(keys.whole_name(scope, "K")) == scope.key
    # Beside the proofs, in one slot: renewed and looked at in one call.
    assert (keys.applied_name(), keys.tally_name()) == ("{live}:applied", "{live}:tally")


@pytest.mark.parametrize(
    ("name", "workspace"),
    [("{w}:", "w"), ("ctx:{w}:index:views:{x}:y", "w"), ("ctx:{}:marks", ""), ("a{%7B}:b", "{")],
)
def test_the_workspace_in_a_name_is_its_first_slot(name: str, workspace: str) -> None:
    """As Redis finds it, whatever follows."""
    assert keys.workspace_in(name) == workspace


@pytest.mark.parametrize("name", ["", "w", "}:{w", "ctx:{w", "ctx:{w}"])
def test_a_name_without_a_slot_is_refused(name: str) -> None:
    """Cut to what a log line takes."""
    with pytest.raises(ValueError, match=r"is not a name in Redis; make names with") as refused:
        keys.workspace_in(name + "x" * 100)
    assert str(refused.value).startswith(repr((name + "x" * 100)[:80]) + " is not")


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("ctx:{w}:whole:abc:K", "abc"),
        ("ctx:{w}:session:abc", "abc"),
        ("ctx:{w}:memory:abc", "abc"),
        ("ctx:{w}:memory", None),
        ("ctx:{w}:surface:abc", None),
        ("ctx:{w}:marks", None),
        ("whole:abc", "abc"),
    ],
)
def test_only_what_is_of_one_scope_tells_it(name: str, key: str | None) -> None:
    """The part after the kind; a name of a workspace's own has none."""
    assert keys.scope_key_in(name) == key


def test_an_index_holds_names_that_are_said_and_names_that_are_not() -> None:
    """As `fill.lua` spells them."""
    name = keys.surface_name("w", "K")
    assert keys.quietly(name) == f"!{name}"
    assert keys.unquiet(keys.quietly(name)) == (name, False)
    assert keys.unquiet(name) == (name, True)


def test_sealed_tags_tell_nothing() -> None:
    """HMAC by the secret, over workspace and tag; in the order of the digests."""
    tags = [keys.rows("t"), Tag("everything")]
    sealed = keys.seal("secret", "w", tags)
    assert sealed == ("3f5fe8e7bcdf5a810eda07ef13ca5ac5", "e1d7dc28e3869219dcb15cb06cf49540")
    assert sealed == keys.seal("secret", "w", reversed(tags))
