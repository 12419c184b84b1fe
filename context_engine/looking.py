"""Looking into the cache: by which names, and what of it may answer a request."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from context_engine import keys, tokens
from context_engine.asked import Answer, Asked, Options
from context_engine.built import Limits
from context_engine.coordinates import Effective, effective, kept
from context_engine.keys import Rendering, Scope
from context_engine.liveness import Liveness, Proven
from context_engine.models.input import ContextBuildInput
from context_engine.ports import Entry, Moment, Seen
from context_engine.rendering import answered, denial
from context_engine.repository import ContextRepository, Names, Remarks, Unread, names_of

PLAIN = Options()
"""Other options may leave what another stores unread: these neither lead nor wait."""

Past = Unread | Literal["store_away", "asked"]
"""Why a request was answered past the cache; `asked`: it wanted to be, by `fresh`."""


@dataclass(frozen=True, slots=True)
class Looked:
    """A request with what was found for it. `seen` is None where the cache is away."""

    asked: Asked
    seen: Seen | None

    @property
    def led(self) -> bool:
        """Whether another builds what was not there, so that it may soon be."""
        return self.seen is not None and self.seen.led

    @property
    def past(self) -> Past | None:
        """Why the cache plays no part in the answer; None where it was read."""
        if self.seen is None:
            return "store_away"
        return self.asked.remarks.unread or ("asked" if self.asked.options.fresh else None)

    @property
    def whole(self) -> Answer | None:
        """The cached answer. Raises `NotFound` where a denial is cached."""
        if self.seen is None or self.seen.whole is None:
            return None
        return _cached(self.seen.whole, self.seen.now_ms)


class Looking:
    """Resolves the effective coordinates, and looks by the keys that are made over them."""

    def __init__(self, repository: ContextRepository, limits: Limits, liveness: Liveness) -> None:
        self._repository, self._limits, self._liveness = repository, limits, liveness

    def asked(
        self,
        request: ContextBuildInput,
        options: Options,
        request_id: str | None,
        trace_id: str | None,
    ) -> Asked:
        """The request as it stands without its session."""
        scope = keys.scope_of(
            request.workspace_id, request.user_id, request.session_id, request.conversation_id
        )
        own = effective(request, None)
        names = self._names(scope, request, own, options)
        return Asked(request, options, scope, own, names, Remarks(), None, request_id, trace_id)

    async def first(self, asked: Asked) -> Looked:
        """The look of a request that arrived before it.

        A session most often keeps what the request says, or nothing: so the first look takes
        that for granted, and is the only one if it holds.
        """
        seen = await self._look(asked, assumed=True)
        session = seen.session if seen is not None else None
        if session is None:
            return Looked(asked, seen)
        asked = replace(asked, last_hash=session.last_context_hash)
        if session.coordinates == kept(asked.effective.at):
            return Looked(asked, seen)
        asked = self._over(asked, session.coordinates)
        if not asked.options.fresh:
            seen = await self._look(asked, assumed=False)
        return Looked(asked, seen)

    async def again(self, asked: Asked) -> Looked:
        """Another look for the same request, and for who arrived meanwhile: where the session
        keeps other coordinates by now, by those."""
        seen = await self._look(asked, assumed=False)
        session = seen.session if seen is not None else None
        if session is None:
            return Looked(asked, seen)
        now = replace(self._over(asked, session.coordinates), last_hash=session.last_context_hash)
        if now.effective != asked.effective:
            seen = await self._look(now, assumed=False)
        return Looked(now, seen)

    def _over(self, asked: Asked, coordinates: bytes) -> Asked:
        """The request, by what its session keeps."""
        found = effective(asked.request, coordinates)
        names = self._names(asked.scope, asked.request, found, asked.options)
        return replace(asked, effective=found, names=names)

    def _names(
        self, scope: Scope, request: ContextBuildInput, found: Effective, options: Options
    ) -> Names:
        messages, chars = self._limits.messages, self._limits.compression_chars
        how = Rendering(request.locale, request.timezone, messages, chars)
        return names_of(scope, request, found, how, strict=options.strict)

    async def _look(self, asked: Asked, *, assumed: bool) -> Seen | None:
        """What is cached and proven; its clock and session only, where liveness is not proven.

        Nor where it was not when the request arrived: only who arrives later may rely on it.
        """
        proven = await self._liveness.proven()
        if proven is None:
            asked.remarks.bypass()
        seen = await self._repository.look(
            asked.names,
            asked.effective,
            asked.remarks,
            fresh=asked.options.fresh or asked.remarks.bypassed,
            assumed=assumed,
            lead=asked.options == PLAIN,
        )
        if proven is None or seen is None or seen.moment is None:
            return seen
        return self._allowed(asked, seen, seen.moment, proven)

    def _allowed(self, asked: Asked, seen: Seen, moment: Moment, proven: Proven) -> Seen:
        """What of a look may answer this request; the rest is as if it had not been there."""
        if not proven.covers(moment.reign):  # another server than the one that was proven
            asked.remarks.bypass("other_server")
            return replace(seen, whole=None, surface=None)
        workspace_id, options = asked.scope.workspace_id, asked.options
        if not all(tokens.proven(one, workspace_id, moment, proven) for one in options.after):
            asked.remarks.unproven_write()
            return replace(seen, whole=None, surface=None)
        if options.max_age_ms is None:
            return seen
        oldest = seen.now_ms - options.max_age_ms
        return replace(seen, whole=_since(seen.whole, oldest), surface=_since(seen.surface, oldest))


def _since(entry: Entry | None, oldest_ms: int) -> Entry | None:
    """`entry`, if it was built at or after that time, by the store's clock."""
    return entry if entry is not None and entry.built_ms >= oldest_ms else None


def _cached(entry: Entry, now_ms: int) -> Answer:
    """A cached answer: its bytes, with the source and the age put in front.

    Raises `NotFound` where a denial is cached.
    """
    if (refused := denial(entry.payload)) is not None:
        raise refused
    age = max(0, now_ms - entry.built_ms)
    context_id, context = answered(entry.payload, "cache", age)
    return Answer(context_id, entry.context_hash, "cache", context)
