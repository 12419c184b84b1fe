"""The AsyncAPI 3 document: every topic and message, made from the contracts.

Seen from the engine: it receives requests and changes, and sends answers and evictions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from context_engine.models import SCHEMA_VERSION
from context_engine.settings import Settings
from events import cloudevents, examples, messages
from events.dead_letters import PREFIX, REPLAY_COUNT
from events.examples import CHANGES
from events.ledger import Handling
from events.messages import BuildFailed, BuildRequest, ContextEvicted, ContextReady, Heartbeat
from events.topics import DEAD_LETTER_SUFFIX, Topic, Topics

Json = dict[str, Any]  # a JSON document, which only the validators type

BINDING = "0.5.0"
"""Version of AsyncAPI's Kafka binding."""

_Mode = Literal["validation", "serialization"]

_SENT_TO_US: list[tuple[type[BaseModel], _Mode]] = [
    (BuildRequest, "validation"),
    *((type(change), "validation") for change in CHANGES),
    (Heartbeat, "validation"),
]
_SENT_BY_US: list[tuple[type[BaseModel], _Mode]] = [
    (ContextReady, "serialization"),
    (BuildFailed, "serialization"),
    (ContextEvicted, "serialization"),
    (Handling, "serialization"),
]


def default_topics() -> Topics:
    """The topics by their default names; nothing is read from the environment."""
    return Topics.of(Settings.model_construct())


def document(topics: Topics | None = None) -> Json:
    """The document as JSON; of the default topics unless others are given."""
    topics = topics or default_topics()
    refs, schemas = models_json_schema(
        [*_SENT_TO_US, *_SENT_BY_US], by_alias=True, ref_template="#/components/schemas/{model}"
    )
    payloads = {model.__name__: ref for (model, _), ref in refs.items()}
    return {
        "asyncapi": "3.0.0",
        "id": "urn:context-engine",
        "info": _info(),
        "defaultContentType": "application/json",
        "servers": {
            "local": {
                "host": "127.0.0.1:9092",
                "protocol": "kafka",
                "description": "The address that CONTEXT_KAFKA_BOOTSTRAP names.",
            }
        },
        "channels": dict(_channels(topics)),
        "operations": _operations(topics),
        "components": {
            "messages": _messages(payloads),
            "schemas": _plain(schemas["$defs"]),
        },
    }


def text(topics: Topics | None = None) -> str:
    """The document as it is committed."""
    return json.dumps(document(topics), ensure_ascii=False, indent=2) + "\n"


def _info() -> Json:
    return {
        "title": "Context Engine",
        "version": version("context-engine"),
        "description": (
            "Context for AI agents over Kafka. CloudEvents 1.0: binary mode is sent, binary and"
            f" structured mode are read. Version {SCHEMA_VERSION} of the contracts. Delivery is at"
            " least once."
        ),
        "license": {
            "name": "Apache-2.0",
            "url": "https://www.apache.org/licenses/LICENSE-2.0",
        },
    }


def _plain(schema: Any) -> Any:
    """Without pydantic's `discriminator`, which AsyncAPI takes for another thing."""
    if isinstance(schema, dict):
        return {
            name: _plain(part)
            for name, part in schema.items()
            if not (name == "discriminator" and isinstance(part, dict) and "propertyName" in part)
        }
    return [_plain(part) for part in schema] if isinstance(schema, list) else schema


# -- channels ----------------------------------------------------------------------------------


def _channels(topics: Topics) -> Iterator[tuple[str, Json]]:
    ask, ready = topics.build_requests, topics.ready
    yield "buildRequests", _channel(ask, "Requests for a context.", [messages.BUILD_REQUESTED])
    answers = [messages.READY, messages.BUILD_FAILED]
    yield "ready", _channel(ready, "Answers, unless the request names another topic.", answers)
    yield (
        "replies",
        {
            "address": None,
            "title": "The topic that a request names",
            "description": (
                "By the header kafka_replyTopic or reply_to, if CONTEXT_REPLY_TOPICS has it."
            ),
            "messages": _refs(answers),
        },
    )
    for kind, topic in topics.by_kind:
        types = [messages.change_type(c) for c in CHANGES if topics.topic_for(c) == topic]
        about = f"Domain changes of the kind {kind}, and the relay's heartbeats."
        yield _camel(kind), _channel(topic, about, [*types, messages.HEARTBEAT])
    yield "evictions", _channel(topics.evictions, "What was taken back.", [messages.EVICTED])
    for topic in (ask, *topics.changes()):
        name = _name_of(topics, topic) + "DeadLetters"
        about = f"Messages of {topic.name} that could not be handled."
        yield name, _channel(topic.dead_letters, about, [DEAD_LETTER])
    handled = "Which dead letters operators replayed or discarded."
    yield "handledDeadLetters", _channel(topics.handled, handled, [HANDLED])


def _channel(topic: Topic, description: str, types: list[str]) -> Json:
    return {
        "address": topic.name,
        "title": topic.name,
        "description": description,
        "messages": _refs(types),
        "bindings": {
            "kafka": {
                "topic": topic.name,
                "partitions": topic.partitions,
                "topicConfiguration": {
                    "retention.ms": topic.retention_ms,
                    "max.message.bytes": int(topic.config()["max.message.bytes"]),
                    "message.timestamp.type": topic.config()["message.timestamp.type"],
                },
                "bindingVersion": BINDING,
            }
        },
    }


def _refs(types: list[str]) -> Json:
    return {type: {"$ref": f"#/components/messages/{type}"} for type in types}


def _camel(kind: str) -> str:
    head, *rest = kind.split("-")
    return head + "".join(map(str.capitalize, rest))


def _name_of(topics: Topics, topic: Topic) -> str:
    kinds = {one.name: _camel(kind) for kind, one in topics.by_kind}
    return kinds.get(topic.name, "buildRequests")


# -- operations --------------------------------------------------------------------------------


def _operations(topics: Topics) -> Json:
    answers = [messages.READY, messages.BUILD_FAILED]
    return {
        "build": {
            **_operation("receive", "buildRequests", "Answers a request for a context."),
            "reply": {
                "address": {
                    "location": f"$message.header#/{cloudevents.SPRING_REPLY}",
                    "description": "Without it the answer goes to the channel ready.",
                },
                "channel": {"$ref": "#/channels/replies"},
                "messages": [
                    {"$ref": f"#/channels/replies/messages/{answer}"} for answer in answers
                ],
            },
        },
        "answer": _operation("send", "ready", "Answers where no other topic is named."),
        **{
            f"on{_camel(kind)[0].upper()}{_camel(kind)[1:]}": _operation(
                "receive", _camel(kind), "Takes back what the change made untrue."
            )
            for kind, _ in topics.by_kind
        },
        "announce": _operation("send", "evictions", "Says what was taken back, after the fact."),
        "handle": _operation("send", "handledDeadLetters", "Notes what an operator did."),
        **{
            f"bury{name[0].upper()}{name[1:]}": _operation(
                "send", f"{name}DeadLetters", "Keeps what could not be handled."
            )
            for name in ("buildRequests", *(_camel(kind) for kind, _ in topics.by_kind))
        },
    }


def _operation(action: str, channel: str, summary: str) -> Json:
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel}"},
        "summary": summary,
    }


# -- messages ----------------------------------------------------------------------------------

DEAD_LETTER = "dead-letter"
HANDLED = "dead-letter-handled"


def _messages(payloads: dict[str, Any]) -> Json:
    request = examples.REQUEST.model_dump(mode="json", exclude_unset=True)
    failed = examples.FAILED.model_dump(mode="json", exclude_none=True)
    evicted = examples.EVICTED.model_dump(mode="json")
    beat = examples.HEARTBEAT.model_dump(mode="json")
    made = {
        messages.BUILD_REQUESTED: _message(
            BuildRequest, messages.BUILD_REQUESTED, payloads, "the scope key", request, asks=True
        ),
        messages.READY: _message(ContextReady, messages.READY, payloads, "requestId", None),
        messages.BUILD_FAILED: _message(
            BuildFailed, messages.BUILD_FAILED, payloads, "requestId", failed
        ),
        messages.EVICTED: _message(
            ContextEvicted, messages.EVICTED, payloads, "workspaceId", evicted
        ),
        messages.HEARTBEAT: _message(
            Heartbeat, messages.HEARTBEAT, payloads, "empty; sent to every partition", beat
        ),
    }
    for change in CHANGES:
        type_ = messages.change_type(change)
        example = json.loads(examples.as_sent(change))
        made[type_] = _message(type(change), type_, payloads, "workspaceId", example)
    made[DEAD_LETTER] = _dead_letter()
    made[HANDLED] = _handled(payloads)
    return made


def _message(
    model: type[BaseModel],
    type_: str,
    payloads: dict[str, Any],
    key: str,
    example: Json | None,
    *,
    asks: bool = False,
) -> Json:
    summary, _, more = (model.__doc__ or "").strip().partition("\n")
    made: Json = {
        "name": type_,
        "title": model.__name__,
        "summary": summary.replace("``", ""),
        "contentType": "application/json",
        "headers": _headers(type_, asks=asks),
        "payload": payloads[model.__name__],
        "bindings": {"kafka": {"key": _key(key), "bindingVersion": BINDING}},
    }
    if more.strip():
        made["description"] = " ".join(more.split())
    if "request_id" in model.model_fields:
        made["correlationId"] = {"location": "$message.payload#/requestId"}
    if example is not None:
        headers = {"ce_specversion": "1.0", "ce_type": type_, "ce_source": "my-product"}
        headers["ce_id"] = str(example.get("changeId") or example.get("requestId", "e-1"))
        made["examples"] = [{"name": type_, "headers": headers, "payload": example}]
    return made


def _key(what: str) -> Json:
    return {"type": "string", "description": f"UTF-8: {what}."}


def _headers(type_: str, *, asks: bool) -> Json:
    properties: Json = {
        "ce_specversion": {"type": "string", "const": cloudevents.SPECVERSION},
        "ce_type": {"type": "string", "const": type_},
        "ce_source": {"type": "string", "description": "Who says it, such as my-product."},
        "ce_id": {"type": "string", "description": "One for each event, the same when repeated."},
        "ce_time": {"type": "string", "format": "date-time"},
        "content-type": {"type": "string", "description": "application/json, the default."},
    }
    correlation = "Echoed byte for byte."
    if asks:
        properties |= {
            cloudevents.SPRING_REPLY: {"type": "string", "description": "Spring's reply topic."},
            cloudevents.SPRING_PARTITION: {
                "type": "string",
                "description": "Its partition: four bytes, big endian.",
            },
            cloudevents.FASTSTREAM_REPLY: {
                "type": "string",
                "description": "FastStream's reply topic.",
            },
        }
    if asks or type_ in (messages.READY, messages.BUILD_FAILED):
        properties |= {
            cloudevents.SPRING_CORRELATION: {"type": "string", "description": correlation},
            cloudevents.FASTSTREAM_CORRELATION: {"type": "string", "description": correlation},
        }
    required = ["ce_specversion", "ce_type", "ce_source", "ce_id"]
    return {"type": "object", "properties": properties, "required": required}


def _dead_letter() -> Json:
    """The message as it came; numbers in its headers are big endian."""
    about = {
        "original-topic": "UTF-8.",
        "original-partition": "Four bytes, big endian.",
        "original-offset": "Eight bytes, big endian.",
        "original-timestamp": "Eight bytes, big endian: milliseconds since 1970.",
        "original-consumer-group": "UTF-8.",
        "exception-fqcn": "The error's class.",
        "exception-message": "What was wrong, and where.",
        "exception-stacktrace": "Empty.",
        "truncated": "`true` where the message was cut to fit.",
    }
    properties = {
        PREFIX + name: {"type": "string", "description": text} for name, text in about.items()
    }
    properties[REPLAY_COUNT] = {
        "type": "string",
        "description": "How often the message was replayed, in decimal digits; absent for never.",
    }
    return {
        "name": DEAD_LETTER,
        "title": "Dead letter",
        "summary": f"On every topic with the suffix {DEAD_LETTER_SUFFIX}: the message as it came.",
        "contentType": "application/octet-stream",
        "headers": {
            "type": "object",
            "properties": properties,
            "required": [PREFIX + name for name in about if name != "truncated"],
        },
        "payload": {"type": "string", "description": "The bytes as they came."},
        "bindings": {"kafka": {"key": _key("as it came"), "bindingVersion": BINDING}},
    }


def _handled(payloads: dict[str, Any]) -> Json:
    """Not a CloudEvent: a log that `context-engine dead-letters` alone reads and writes."""
    return {
        "name": HANDLED,
        "title": Handling.__name__,
        "summary": "What became of a dead letter; written and read by `dead-letters`.",
        "contentType": "application/json",
        "headers": {"type": "object", "properties": {}, "required": []},
        "payload": payloads[Handling.__name__],
        "bindings": {
            "kafka": {
                "key": _key("topic, partition and offset of the letter"),
                "bindingVersion": BINDING,
            }
        },
    }
