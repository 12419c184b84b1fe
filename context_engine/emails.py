"""E-mail addresses, as far as they tell who somebody is."""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase

CHARS = 320
"""Longest address, in characters."""
BLANK = " \t\n\v\f\r"
"""What is no part of an address at either end: the white space of ASCII."""

_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


def normal(address: str) -> str:
    """The form in which addresses are compared: trimmed of `BLANK`, the letters A to Z lowered.

    No other letter is folded, so that every side can do the same: in PostgreSQL it is
    `lower(btrim(address, BLANK) COLLATE "C")`.
    """
    return address.strip(BLANK).translate(_LOWER)
