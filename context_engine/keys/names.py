"""Names in Redis.

One workspace, one slot: the part in braces decides it, and no id can close the brace.
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import unquote

from context_engine.keys.encoding import part
from context_engine.keys.scopes import Scope
from context_engine.keys.tags import Tag

_QUIET = "!"


@lru_cache(maxsize=4096)
def _slot(workspace_id: str) -> str:
    return "ctx:{" + part(workspace_id) + "}:"


def marks_name(workspace_id: str) -> str:
    """The hash of epoch, clock and marks."""
    return _slot(workspace_id) + "marks"


def whole_name(scope: Scope, key: str) -> str:
    """A whole context. The scope key is in the name, so that an eviction can say whose it was."""
    return f"{_slot(scope.workspace_id)}whole:{scope.key}:{key}"


def lead_name(whole: str) -> str:
    """That somebody builds the whole context of that name. In its slot, as what it is about."""
    slot, _, rest = whole.partition("}:")
    return f"{slot}}}:lead:{rest}"


def surface_name(workspace_id: str, key: str) -> str:
    return f"{_slot(workspace_id)}surface:{key}"


def session_name(scope: Scope) -> str:
    """A session's coordinates: kept a day, never trusted."""
    return f"{_slot(scope.workspace_id)}session:{scope.key}"


def memory_name(scope: Scope) -> str:
    """A session's derived text: true only while its tags are unmarked."""
    return f"{_slot(scope.workspace_id)}memory:{scope.key}"


def index_name(workspace_id: str, tag: Tag) -> str:
    """The set of entries that carry `tag`: whom to unlink, never what is true."""
    return f"{_slot(workspace_id)}index:{tag}"


def quietly(name: str) -> str:
    """A name as an index holds it that says nothing when it is unlinked. No name begins so."""
    return _QUIET + name


def unquiet(member: str) -> tuple[str, bool]:
    """The name that an index holds, and whether it is to be said."""
    return member.removeprefix(_QUIET), not member.startswith(_QUIET)


def sessions_name(workspace_id: str, user_id: str) -> str:
    """The set of a user's sessions in a workspace."""
    return f"{_slot(workspace_id)}sessions:{part(user_id)}"


def live_name(topic: str, partition: int) -> str:
    """That a partition's changes are applied, for as long as it is there. One slot for all."""
    return f"{{live}}:{topic}:{partition}"


def applied_name() -> str:
    """The hash of what was last proven of each partition, kept for longer than it is live."""
    return "{live}:applied"


def reign_name() -> str:
    """Who reigns in the store, and since when that is known."""
    return "{live}:reign"


def timeline_name() -> str:
    """Of which of the database's timelines everything in the store is."""
    return "{live}:timeline"


def tally_name() -> str:
    """The hash of what was answered lately, and how much of it past the cache."""
    return "{live}:tally"


def workspace_in(name: str) -> str:
    """The workspace whose slot `name` lies in. Raises `ValueError` for a name not made here."""
    start, end = name.find("{"), name.find("}:")
    if start < 0 or end < start:
        raise ValueError(
            f"{name[:80]!r} is not a name in Redis; make names with context_engine.keys only"
        )
    return unquote(name[start + 1 : end])


def scope_key_in(name: str) -> str | None:
    """The scope key inside the name of a whole context, session or memory; None elsewhere."""
    parts = name.rsplit("}:", 1)[-1].split(":")
    return parts[1] if parts[0] in {"whole", "session", "memory"} and len(parts) > 1 else None
