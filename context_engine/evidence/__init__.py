"""Reading evidence: what the engine told, compared, and a dialogue beside what was told of it.

Nothing here decides on access, and nothing here is ever put into an answer.
"""

from context_engine.evidence.contexts import ContextDiff, SectionDiff, compare
from context_engine.evidence.denials import Denied, denied, object_of, surface_of, versions_of
from context_engine.evidence.dialogue import Held, Original, Told, held_by, originals
from context_engine.evidence.diff import (
    MISSING,
    Change,
    Item,
    Missing,
    applied,
    change_json,
    diff,
    path_text,
)

__all__ = [
    "MISSING",
    "Change",
    "ContextDiff",
    "Denied",
    "Held",
    "Item",
    "Missing",
    "Original",
    "SectionDiff",
    "Told",
    "applied",
    "change_json",
    "compare",
    "denied",
    "diff",
    "held_by",
    "object_of",
    "originals",
    "path_text",
    "surface_of",
    "versions_of",
]
