"""What is said of a broker that cannot be reached, the same by every client."""

from __future__ import annotations

from context_engine.errors import Unavailable


def away(bootstrap: str, what: str) -> Unavailable:
    """The error for a broker at `bootstrap` that did `what`."""
    return Unavailable("broker", unreached(bootstrap, what))


def unreached(bootstrap: str, what: str) -> str:
    """What the broker at `bootstrap` did, and the remedy."""
    return f"{bootstrap} {what}: check that it runs and that CONTEXT_KAFKA_BOOTSTRAP is its address"


def reason(error: BaseException) -> str:
    """An error of aiokafka's in words for people: its name once, no Python values."""
    name = type(error).__name__
    text = str(error).removeprefix(f"{name}: ")
    if isinstance(error, TimeoutError) and not text:
        return "no answer in time"
    return "no connection" if text.startswith("Unable to bootstrap") else text or name
