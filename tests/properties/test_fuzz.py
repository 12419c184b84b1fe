"""Whatever comes over the wire or out of the store, its reader answers or refuses by a typed error.

`AREA=fuzz` in the environment asks for `FUZZ_INPUTS` (1,000,000) in all, with `FUZZ_SEED` for one
seen before.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any, cast

import pytest

from context_engine import policy, tokens, view_filters
from context_engine.adapters.sql.predicates import Binds, predicate_sql
from context_engine.adapters.sql.view_filters import view_filter_sql
from context_engine.engine import Answer, ContextEngine
from context_engine.errors import ContextEngineError, InvalidRequest
from context_engine.facts import FieldFacts
from context_engine.invalidation import tags_touched
from context_engine.settings import Settings
from context_engine.view_filters import EVERY_ROW, Sight
from events import answers, examples, messages
from events.dead_letters import dead_letter
from events.letters import letter_of, place_of
from events.messages import ContextEvicted, Heartbeat
from events.producer import record_bytes
from events.records import RawMessage
from events.subscription import evictions_of
from events.tail import Missed
from events.topics import DEAD_LETTER_ROOM, MIB, Topics
from tests.support.facts import field, link
from tests.support.garbled import Garbler
from workers import change_reader
from workers.build_handler import BuildHandler

LONG = os.environ.get("AREA") == "fuzz"
INPUTS = int(os.environ.get("FUZZ_INPUTS") or (1_000_000 if LONG else 6_000))
SEED = int(os.environ.get("FUZZ_SEED") or (int.from_bytes(os.urandom(4)) if LONG else 0))
if LONG:
    print(f"seed {SEED}: FUZZ_SEED={SEED} repeats this run")

SETTINGS = Settings.model_validate({"tag_secret": "s" * 32, "reply_topics": ("replies",)})
REQUEST = examples.REQUEST.model_dump(mode="json", by_alias=True)
REQUESTS = (
    REQUEST,
    {**REQUEST, "options": {"after": ["topic:domain.membership:0:7"], "maxAgeMs": 5}},
    {"requestId": "r", "input": {"userId": "u", "workspaceId": "w", "metadata": {"a": [1]},
     "agentStack": ["a"], "locale": "zh-CN", "timezone": "Europe/Berlin", "viewId": None}},
)  # fmt: skip
CHANGES = (
    *(json.loads(examples.as_sent(one)) for one in examples.CHANGES),
    json.loads(examples.HEARTBEAT.model_dump_json(by_alias=True)),
)
REPLIES = tuple(
    json.loads(one.model_dump_json(by_alias=True)) for one in (examples.FAILED, examples.EVICTED)
)
POLICY = {"mode": "permissive", "subjects": [{"type": "team", "id": "t"}], "pred": True}
PREDS: tuple[Any, ...] = (
    {"all": [
        {"cmp": {"ref": "field:d", "op": "lte", "operand": {"now": {"unit": "today"}}}},
        {"linkedAny": {"field": "l", "pred":
            {"cmp": {"ref": "field:f", "op": "eq", "operand": {"literal": "Running"}}}}},
        {"cmp": {"ref": "field:f", "op": "in", "operand": {"attr":
            {"table": "x", "keyField": "f", "valueField": "f"}}}}]},
    {"any": [{"not": {"cmp": {"ref": "sys:created_by", "op": "eq", "operand": {"user": "id"}}}},
             {"cmp": {"ref": "field:n", "op": "gt", "operand": {"literal": 2.5}}},
             {"cmp": {"ref": "field:f", "op": "empty"}}, False]},
)  # fmt: skip
POLICIES = tuple({"default": "deny_all", "policies": [{**POLICY, "pred": one}]} for one in PREDS)
STEP = {"field": "l", "table": "x"}
FILTERS = (
    {"where": {"every": [
        {"field": "f", "value": {"cell": "f", "kind": "text"}, "test": {"op": "equal", "to": "a"}},
        {"some": [
            {"field": "d", "value": {"cell": "d", "kind": "date"},
             "test": {"op": "date_is", "days": {"tz": "UTC", "unit": "week", "shift": -1}}},
            {"field": "l", "value": {"count": STEP}, "test": {"op": "higher_than", "to": 2}}]}]}},
    {"where": {"field": "l", "value": {"lookup": {"step": STEP,
        "value": {"cell": "f", "kind": "text"}}}, "test": {"op": "not_empty"}}},
    {"where": {"unavailable": "a formula"}},
)  # fmt: skip
FIELDS: dict[str, FieldFacts] = {
    one.id: one for one in (field("f"), field("n", "number"), field("d", "date"), link("l", "x"))
}
USER = policy.UserOperands(
    id="u", email_norm="u@x.y", timezone="UTC", now=datetime(2026, 11, 30, tzinfo=UTC)
)


class Engine:
    """Answers whatever is read as a request."""

    async def build(self, *_: object, **__: object) -> Answer:
        return Answer("c1", "h1", "build", b"{}")


TOPICS = Topics.of(SETTINGS)
HANDLER = BuildHandler(cast("ContextEngine", Engine()), TOPICS, SETTINGS)


def _message(
    garbler: Garbler, rng: Random, type_: str, good: Any, others: Sequence[Any]
) -> RawMessage:
    headers = {"ce_specversion": b"1.0", "ce_id": b"e", "ce_source": b"s",
               "ce_type": type_.encode(), "content-type": b"application/json"}  # fmt: skip
    if rng.random() < 0.3:
        good = {"specversion": "1.0", "id": "e", "source": "s", "type": type_, "data": good}
        headers = {"content-type": b"application/cloudevents+json"}
    value = None if rng.random() < 0.01 else garbler.text(good, others)
    key = rng.choice((None, b"", b"w", b"\xff\xfe", b"k" * 2_000))
    return RawMessage("t", 0, 7, 0, key, value, garbler.headers(headers))


def _request(garbler: Garbler, rng: Random) -> str:
    """Answered, or refused by a code that is no fault of ours; what is buried fits its topic."""
    raw = _message(garbler, rng, messages.BUILD_REQUESTED, rng.choice(REQUESTS), REQUESTS)
    try:
        HANDLER(raw).send(None)
    except StopIteration as done:
        records = done.value
    for record in records:
        headers = dict(record.headers)
        if "kafka_dlt-exception-fqcn" in headers:
            assert b"Fault" not in (headers["kafka_dlt-exception-fqcn"] or b"")
            assert record_bytes(record) <= MIB + DEAD_LETTER_ROOM
    assert records
    return f"{len(records)} records"


def _change(garbler: Garbler, rng: Random) -> str:
    """A change with its tags, a heartbeat, or poison that may be somebody's and can be buried."""
    good = rng.choice(CHANGES)
    type_ = messages.type_of(good["type"]) if "type" in good else messages.HEARTBEAT
    raw = _message(garbler, rng, type_, good, CHANGES)
    found = change_reader.read(raw)
    if isinstance(found, change_reader.Poison):
        assert all(found.workspace_ids)
        record_bytes(dead_letter(raw, found.error, "group"))
    elif not isinstance(found, Heartbeat):
        assert tags_touched(found)
    return type(found).__name__


def _reply(garbler: Garbler, rng: Random) -> str:
    """What a client makes of a reply, and a subscriber of an announcement."""
    type_ = rng.choice((messages.READY, messages.BUILD_FAILED, messages.EVICTED))
    raw = _message(garbler, rng, type_, rng.choice(REPLIES), REPLIES)
    answers.ready_in(raw)
    with suppress(Missed):
        assert isinstance(evictions_of(None)(raw), ContextEvicted)
    try:
        answers.context_in(raw)
    except ContextEngineError as error:
        return type(error).__name__
    return "context"


def _letter(garbler: Garbler, rng: Random) -> str:
    """What lists and replays dead letters makes of one, and of where somebody says that it lies."""
    good = rng.choice(CHANGES)
    raw = _message(
        garbler, rng, messages.type_of(good["type"]) if "type" in good else "", good, CHANGES
    )
    buried = dead_letter(raw, InvalidRequest("cannot be read", field="data"), "group")
    headers = dict(buried.headers)
    for name in rng.sample(sorted(headers), rng.choice((0, 1, 3))):
        headers[name] = rng.choice((None, b"", b"\xff" * 9, b"8", (2**63).to_bytes(8), b"9" * 40))
    letter = letter_of(replace(raw, headers=tuple(headers.items()), topic=TOPICS.buried()[0].name))
    assert letter.replays >= 0
    assert all(letter.workspace_ids)
    place = f"{letter.place.topic}/{letter.place.partition}/{letter.place.offset}"
    try:
        place_of(garbler.text(place, (place,)).decode(errors="replace").strip('"'), TOPICS)
    except InvalidRequest:
        return "no place"
    return "its place"


def _token(garbler: Garbler, rng: Random) -> str:
    good = ("mark:w:e:r:1", "topic:domain.membership:0:7", "unmarked:o", "mark:a%3Ab:e:r:1")
    text = garbler.text(rng.choice(good), good).decode(errors="replace")
    try:
        return type(tokens.parse(text.strip('"'))).__name__
    except InvalidRequest:
        return "refused"


def _policy(garbler: Garbler, rng: Random) -> str:
    """Read, checked as by a writer, resolved for a user and compiled; or refused with its place."""
    raw = garbler.document(rng.choice(POLICIES), POLICIES)
    fields_of = {"t": FIELDS, "x": FIELDS}.get
    try:
        parsed = policy.parse_policies(raw)
    except InvalidRequest as error:
        return "refused" if error.field else "refused without its place"
    with suppress(InvalidRequest):  # what is stored all the same is read all the same
        parsed = policy.check(parsed, "t", fields_of)
    try:
        for one in parsed.policies:
            policy.until(one.pred, USER)
            policy.lacking(one.pred, fields_of, "t")
            predicate_sql(policy.resolve(one.pred, USER, fields_of, "t"), Binds())
    except policy.Unresolvable:
        return "unresolvable"
    return "compiled"


def _filter(garbler: Garbler, rng: Random) -> str:
    """Prepared and compiled, or without a count and a reason."""
    raw = garbler.document(rng.choice(FILTERS), FILTERS)
    sight = Sight({one.id: one.linked_table_id for one in FIELDS.values()}, EVERY_ROW)
    made = view_filters.prepare(raw, "t", USER.now, lambda _: sight)
    if isinstance(made, str):
        return "uncountable"
    try:
        view_filter_sql(made, Binds())
    except policy.Unresolvable:
        return "unresolvable"
    return "compiled"


READERS: dict[str, Callable[[Garbler, Random], str]] = {
    "request": _request,
    "change": _change,
    "reply": _reply,
    "letter": _letter,
    "token": _token,
    "policy": _policy,
    "filter": _filter,
}


@pytest.mark.timeout(6 * 3600 if LONG else 300)
@pytest.mark.parametrize("name", READERS)
def test_no_input_raises_what_is_not_typed(name: str) -> None:
    """Whatever it is: and of what is garbled some is still understood, so that no reader is tried
    on noise alone."""
    outcomes: Counter[str] = Counter()
    for number in range(INPUTS // len(READERS)):
        rng = Random(f"{SEED} {name} {number}")
        try:
            outcomes[READERS[name](Garbler(rng), rng)] += 1
        except Exception as fault:
            fault.add_note(f"FUZZ_SEED={SEED}, {name}, input {number}")
            raise
    if LONG:
        print(name, dict(outcomes))
    assert len(outcomes) > 1
    assert "refused without its place" not in outcomes
