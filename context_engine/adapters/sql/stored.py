"""Rows of the reading statements that hold JSON for which nobody vouches: it may have been edited
behind our back.

The statements give such JSON as text inside of their own. So what cannot be read, since it is
nested too deep or holds a number out of all range, is one rule, field or message, and not all
that was read with it.
"""

from __future__ import annotations

import json
import math
import re
from hashlib import sha256
from typing import Annotated, Any

from pydantic import ConfigDict, JsonValue, PlainValidator, TypeAdapter, model_validator
from pydantic_core import from_json

from context_engine.facts import (
    NOWHERE,
    UNREADABLE,
    ConversationFacts,
    DialogueFacts,
    Facts,
    FieldFacts,
    MessageFacts,
    PolicyFacts,
    ReadTables,
    TableFacts,
    ViewFacts,
)
from context_engine.used_last import UsedLast

Reads = tuple[tuple[str, str], ...] | None

_MANY_DIGITS = re.compile(r"\d{309}")
"""In every number that a float cannot hold."""


def _read(text: str) -> JsonValue:
    """Raises `ValueError`. Takes some 200 levels."""
    found: JsonValue = from_json(text)
    if _MANY_DIGITS.search(text) is not None:
        found = json.loads(text, parse_float=_finite)
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number out of range")
    return number


def _rule(text: str) -> JsonValue:
    """A rule; one that cannot be read, which every grammar refuses."""
    try:
        return _read(text)
    except ValueError:
        return UNREADABLE


def _filter(text: str | None) -> JsonValue:
    """None is no filter at all. A null that was stored is none: it lets nothing through."""
    found = None if text is None else _rule(text)
    return UNREADABLE if text is not None and found is None else found


def _reads(text: str | None) -> Reads:
    if text is None or text == "[]":
        return None if text is None else ()
    try:
        return _pairs.validate_python(_read(text))
    except ValueError:
        return NOWHERE


_pairs: TypeAdapter[tuple[tuple[str, str], ...]] = TypeAdapter(tuple[tuple[str, str], ...])
_calls: TypeAdapter[tuple[dict[str, JsonValue], ...]] = TypeAdapter(
    tuple[dict[str, JsonValue], ...]
)
_rights: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])


class PolicyRow(PolicyFacts):
    subjects: Annotated[JsonValue, PlainValidator(_rule)]
    pred: Annotated[JsonValue, PlainValidator(_rule)]


class FieldRow(FieldFacts):
    reads: Annotated[Reads, PlainValidator(_reads)]


class ViewRow(ViewFacts):
    filter: Annotated[JsonValue, PlainValidator(_filter)]


class TableRow(TableFacts):
    policies: tuple[PolicyRow, ...]
    fields: tuple[FieldRow, ...]
    views: tuple[ViewRow, ...]


class MessageRow(MessageFacts):
    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, row: dict[str, Any]) -> dict[str, Any]:  # of our own statement
        """Of what cannot be read nothing is shown: no calls, and no rights to see a result."""
        try:
            calls = _calls.validate_python(_read(row["tool_calls"]))
            rights = _rights.validate_python(_read(row["rights"]))
        except ValueError:
            return row | {"tool_calls": (), "rights": {}, "readable": False}
        return row | {"tool_calls": calls, "rights": rights}


class DialogueRow(DialogueFacts):
    messages: tuple[MessageRow, ...] = ()


class ConversationRow(ConversationFacts):
    dialogue: DialogueRow = DialogueRow()


class FactsRow(Facts):
    conversation: ConversationRow | None = None


facts: TypeAdapter[FactsRow] = TypeAdapter(FactsRow)
"""What `FACTS` and `DIALOGUE` give."""
_tables: TypeAdapter[tuple[TableRow, ...]] = TypeAdapter(
    tuple[TableRow, ...], config=ConfigDict(hide_input_in_errors=True)
)

MOST_TABLES = 512
"""Tables of all texts that are kept as they were read: those used last."""

TOLD = UsedLast[ReadTables]()
"""Those of this process."""


def tables(text: str) -> ReadTables:
    """What `TABLES` gives. It is asked for anew by every build, and most often says what it said
    the last time: a text that is spelled as one before is not read again."""
    digest = sha256(text.encode()).hexdigest()
    kept = TOLD.get(digest)
    if kept is None:
        kept = ReadTables.of(_tables.validate_json(text), digest, chars=len(text))
        TOLD.keep(digest, kept, kept.weight + 1, most=MOST_TABLES)
    return kept
