"""What can go wrong with the local stack: `LocalStackError` and its two kinds."""

from __future__ import annotations

from typing import ClassVar

from context_engine.errors import ContextEngineError

ADDRESSES = "CONTEXT_KAFKA_BOOTSTRAP, CONTEXT_REDIS_URL and CONTEXT_DATABASE_URL"


class LocalStackError(ContextEngineError):
    """A part of the local stack cannot be had. The message says which and what to do."""

    code: ClassVar[str] = "local_stack"


class UnsupportedPlatform(LocalStackError):
    """The packages that hold the servers do not exist, or are not installed, here."""

    def __init__(self, package: str, reason: str) -> None:
        super().__init__(
            f"the local stack cannot run {package} here: {reason}. It needs Linux or macOS and"
            f" `pip install 'context-engine[local]'`; elsewhere run the servers yourself and give"
            f" their addresses in {ADDRESSES}"
        )
        self.package = package


class PartFailed(LocalStackError):
    """A server did not start, did not answer in time, or left. `part` names it.

    `log_tail` holds the last lines that it wrote, already part of the message.
    """

    def __init__(self, part: str, reason: str, log_tail: str = "") -> None:
        tail = f"\n--- last lines of {part} ---\n{log_tail}" if log_tail else ""
        super().__init__(f"{part}: {reason}{tail}")
        self.part = part
        self.log_tail = log_tail
