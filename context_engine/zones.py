"""Time zones: the one answer to which names are known, at every door and for what is stored.

Known are IANA names with rules of their own. What a machine calls its own zone is another on the
next one, and `posix/` and `right/` are the same zones by other clocks, which not every system has.
"""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

ZONE_CHARS = 64
"""Longest name of a zone."""
UNKNOWN = "unknown time zone; use an IANA name such as 'Europe/Berlin'"

_NAME = re.compile(rf"(?!(posix|right)/)[a-z0-9_+/-]{{1,{ZONE_CHARS}}}", re.IGNORECASE)
_OF_A_MACHINE = frozenset({"localtime", "posixrules", "factory"})


def zone_of(name: str) -> ZoneInfo | None:
    """The zone of an IANA name, or None where there is none."""
    if _NAME.fullmatch(name) is None or name.lower() in _OF_A_MACHINE:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
