"""E-mail addresses, as far as they tell who somebody is."""

from __future__ import annotations

CHARS = 320
"""Longest address, in characters."""


def normal(address: str) -> str:
    """The form in which addresses are compared: trimmed, case folded."""
    return address.strip().casefold()
