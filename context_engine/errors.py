"""The tree of errors. Its branches decide the handling.

```
ContextEngineError
├── Rejected                  answered and acked; trying again changes nothing
│   ├── InvalidRequest        malformed: goes to the dead letters too
│   ├── BrokenFile            a file that cannot be loaded: nothing of it was
│   ├── UnsupportedOption     an option that this version does not have
│   ├── NotFound              missing or out of sight, told apart by nobody
│   ├── NotPermitted          seen, but this write is not the actor's to make
│   ├── Conflict              the state moved on, or the name is taken
│   └── ReplyRefused          the answer cannot go where the request wants it
├── NotNow                    answered and acked at once; asked again later it may be built
│   ├── Expired               waited for longer than it said it is worth
│   └── RateLimited           its workspace has as many builds as it may have at once
└── Unavailable               retried in place with a bound, then loud
    └── NotYetEnforced        committed, but its mark does not stand yet
```
"""

from __future__ import annotations

from typing import ClassVar


class ContextEngineError(Exception):
    """Base of every error this package raises on purpose.

    `code` is for programs, `message` for people; `retryable` says whether the same call may
    succeed later.
    """

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Rejected(ContextEngineError):
    """The caller must change something."""

    code = "rejected"


class InvalidRequest(Rejected):
    """Input that breaks its contract. `field` names the place, the message the remedy."""

    code = "invalid_request"

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field


class BrokenFile(Rejected):
    """A file that cannot be loaded; nothing of it was. `place` says where it broke."""

    code = "broken_file"

    def __init__(self, place: str, message: str) -> None:
        super().__init__(f"{place}: {message}")
        self.place = place


class UnsupportedOption(Rejected):
    """An option of the contract that this version refuses rather than ignores."""

    code = "unsupported_option"


class NotFound(Rejected):
    """What was asked for is missing or out of sight: the same words for both.

    The id is the caller's own, so that naming it tells nothing.
    """

    code = "not_found"

    def __init__(self, kind: str, id: str) -> None:
        super().__init__(f"{kind} {id!r} was not found")
        self.kind = kind
        self.id = id


class NotPermitted(Rejected):
    """The actor sees the thing, but may not make this change."""

    code = "not_permitted"


class Conflict(Rejected):
    """The write met another state than it expected (a version, a name that is taken)."""

    code = "conflict"


class ReplyRefused(Rejected):
    """The reply address or the reply's size is not acceptable."""

    code = "reply_refused"


class NotNow(ContextEngineError):
    """Nothing is wrong with the request: it was not built, so that others are."""

    code = "not_now"
    retryable = True


class Expired(NotNow):
    """The request waited for longer than its `ttlMs`: nothing was built for nobody."""

    code = "expired"

    def __init__(self, message: str = "") -> None:
        super().__init__(
            message or "waited for longer than its ttlMs; ask again if somebody still waits"
        )


class RateLimited(NotNow):
    """More builds of one workspace wait than may: cached answers are still given.

    `retry_after_ms`: by when those before it may be done; None where nobody can tell.
    """

    code = "rate_limited"

    def __init__(self, message: str, retry_after_ms: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class Unavailable(ContextEngineError):
    """A part that the answer needs is away or too slow. `part` names it."""

    code = "unavailable"
    retryable = True

    def __init__(self, part: str, message: str) -> None:
        super().__init__(f"{part}: {message}")
        self.part = part


class NotYetEnforced(Unavailable):
    """The change is committed, but caches may serve what was before it for a bounded time.

    `after`: tokens of the write. A request that names them is not answered from before it.
    """

    code = "committed_not_yet_enforced"

    def __init__(self, part: str, message: str, after: tuple[str, ...] = ()) -> None:
        super().__init__(part, message)
        self.after = after
