"""Parts joined so that no two different lists of parts give the same text."""

from __future__ import annotations

import json
from functools import lru_cache
from hashlib import sha256
from urllib.parse import quote

_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), sort_keys=True)
"""Made once: `json.dumps` makes one for each call that asks for other than its defaults."""


def digest(*parts: object) -> str:
    """SHA-256 over the JSON of `parts`, 64 hex digits; equal only for equal parts."""
    return sha256(_ENCODER.encode(parts).encode()).hexdigest()


@lru_cache(maxsize=16_384)
def part(value: str) -> str:
    """One part of a name: percent-encoded, so that no part holds a separator."""
    return quote(value, safe="-_.~")
