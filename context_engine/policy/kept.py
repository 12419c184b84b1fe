"""Stored rules as they were parsed before: the same few are read for build after build.

Parsing is pure and gives frozen values, so a rule that is spelled as one before means the same,
whoever's it is. What cannot be parsed is not kept: it is refused anew each time.
"""

from __future__ import annotations

import json
from functools import lru_cache

from pydantic import JsonValue
from pydantic_core import to_json

from context_engine.policy import grammar
from context_engine.policy.grammar import Pred, RowPolicy

MOST = 1_024
"""Rules of either kind that are kept: those used last."""
LONGEST = 2_048
"""Bytes of the longest rule that is kept, spelled as JSON."""


def parse_stored(raw: JsonValue) -> Pred:
    """As `grammar.parse` of JSON, which holds no part that is parsed."""
    text = _spelled(raw)
    return grammar.parse(raw) if text is None else _pred(text)


def parse_policy(subjects: JsonValue, pred: JsonValue, mode: str) -> RowPolicy:
    """A policy as it is stored. Raises `InvalidRequest` or `ValueError` for what is none."""
    text = _spelled([subjects, pred, mode])
    return _made(subjects, pred, mode) if text is None else _policy(text)


def _spelled(raw: JsonValue) -> bytes | None:
    """JSON that tells 1 from 1.0 and from true; None for what is not kept."""
    try:
        text = to_json(raw)
    except ValueError:  # half a character, or nested too deep
        return None
    return text if len(text) <= LONGEST else None


def _made(subjects: JsonValue, pred: JsonValue, mode: str) -> RowPolicy:
    return RowPolicy.model_validate(
        {"subjects": subjects, "pred": parse_stored(pred), "mode": mode}
    )


@lru_cache(maxsize=MOST)
def _pred(text: bytes) -> Pred:
    return grammar.parse(json.loads(text))


@lru_cache(maxsize=MOST)
def _policy(text: bytes) -> RowPolicy:
    return _made(*json.loads(text))
