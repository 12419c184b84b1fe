"""What a reply says: a context, or the typed error that a `context.build.failed` stands for."""

from __future__ import annotations

from enum import Enum, auto
from typing import assert_never

from pydantic import ValidationError

from context_engine.errors import (
    Conflict,
    ContextEngineError,
    Expired,
    InvalidRequest,
    NotFound,
    RateLimited,
    Rejected,
    ReplyRefused,
    Unavailable,
    UnsupportedOption,
)
from events import cloudevents, messages
from events.away import unreached
from events.messages import BuildFailed, ContextReady
from events.records import RawMessage


class RequestFailed(Rejected):
    """A request was refused with a code that this client has no class for."""

    def __init__(self, failed: BuildFailed) -> None:
        super().__init__(failed.message)
        self.code = failed.code  # type: ignore[misc]


class ReplyTimeout(Unavailable):
    """No reply came in time. The request may still be answered; ask again with a new id."""

    code = "reply_timeout"


class Stage(Enum):
    """How far a request came: its turn among others, the broker's word, the reply."""

    TURN = auto()
    SENDING = auto()
    REPLY = auto()


def timed_out(stage: Stage, seconds: float, bootstrap: str, most: int) -> ReplyTimeout:
    """Says which part kept a request waiting. `most`: how many may be in flight."""
    within = f"within {seconds:g} s"
    match stage:
        case Stage.TURN:
            return ReplyTimeout(
                "client",
                f"no turn {within}: {most} requests are in flight; ask less at once, or raise"
                " CONTEXT_MAX_IN_FLIGHT",
            )
        case Stage.SENDING:
            return ReplyTimeout("broker", unreached(bootstrap, f"did not answer {within}"))
        case Stage.REPLY:
            return ReplyTimeout(
                "reply",
                f"none {within}, though the broker took the request; is a build worker running?"
                " (context-engine worker build)",
            )
        case _:
            assert_never(stage)


def context_in(raw: RawMessage) -> ContextReady:
    """The reply's context. Raises the error that it carries, `Unavailable` if it is garbled."""
    try:
        event = cloudevents.decode(raw)
        if event.type == messages.READY:
            return ContextReady.model_validate_json(event.data)
        failed = BuildFailed.model_validate_json(event.data)
    except (ValidationError, InvalidRequest) as error:
        raise Unavailable("reply", f"cannot be read ({type(error).__name__})") from error
    raise error_of(failed)


def ready_in(raw: RawMessage) -> ContextReady | None:
    """The context in a message of the ready topic; None for a failure, or what cannot be read."""
    try:
        event = cloudevents.decode(raw)
        if event.type != messages.READY:
            return None
        return ContextReady.model_validate_json(event.data)
    except (ValidationError, InvalidRequest):
        return None


_BY_CODE: dict[str, type[ContextEngineError]] = {
    error.code: error for error in (InvalidRequest, UnsupportedOption, Conflict, ReplyRefused)
}


def error_of(failed: BuildFailed) -> ContextEngineError:
    """The exception that a `context.build.failed` stands for."""
    if failed.code == NotFound.code:
        return _as_answered(NotFound("context", failed.request_id), failed)
    if failed.code == Expired.code:
        return Expired(failed.message)
    if failed.code == RateLimited.code:
        return RateLimited(failed.message, failed.retry_after_ms)
    if failed.retryable:
        return _as_answered(Unavailable("engine", failed.message), failed)
    kind = _BY_CODE.get(failed.code)
    if kind is None:
        return RequestFailed(failed)
    error = kind(failed.message)
    if isinstance(error, InvalidRequest):
        error.field = failed.field
    return error


def _as_answered(error: ContextEngineError, failed: BuildFailed) -> ContextEngineError:
    error.message = failed.message
    error.args = (failed.message,)
    return error
