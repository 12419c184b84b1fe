"""What is kept of a request: evidence, cached answers and denials, the session."""

from __future__ import annotations

from dataclasses import replace

from context_engine import access, keys
from context_engine.asked import Asked
from context_engine.built import Built, Surfaced
from context_engine.ports import NewEntry, Seen, SnapshotRecord
from context_engine.rendering import answered, denied
from context_engine.repository import ContextRepository


class Keeper:
    """Keeps in `repository` what requests came to."""

    def __init__(self, repository: ContextRepository) -> None:
        self._repository = repository

    async def evidence(self, asked: Asked, built: Built) -> None:
        """Keeps the snapshot of what was built. Raises `Unavailable`: evidence is not optional."""
        await self._repository.evidence(_snapshot(asked, built))

    async def answer(
        self,
        asked: Asked,
        seen: Seen | None,
        surfaced: Surfaced,
        built: Built,
    ) -> None:
        """Stores the surface if it is new, the whole context, and the session's two halves."""
        if seen is None:
            return
        seen = _with_timeline(seen, surfaced)
        entry, names = self._repository.entry, asked.names
        new = self._new_surface(asked, seen, surfaced)
        base, tags = surfaced.over or new, surfaced.tags | surfaced.dialogue_tags
        whole = entry(
            names.whole,
            built.kept,
            tags,
            seen,
            passing=surfaced.dialogue_passing,
            context_hash=built.context_hash,
            surface=base,
        )
        memory = None
        if built.memory is not None and asked.scope.has_session:
            name = keys.memory_name(asked.scope)
            memory = entry(name, built.memory.encode(), tags, seen, surface=base)
        session = self._repository.session_write(
            asked.effective, asked.scope, built.context_hash, memory
        )
        entries = [one for one in (new, whole) if one is not None]
        await self._repository.keep(seen, entries, session, asked.scope)

    async def denial(
        self, asked: Asked, seen: Seen | None, known: Surfaced | None, refused: access.Denied
    ) -> None:
        """Stores a denial in the place of the whole context, and the surface if it is new.

        The session keeps nothing of it, and there is no evidence: nothing was told. Nor will it
        be told when they fall, since what is hidden may change and what is missing does not.
        """
        if seen is None:
            return
        seen = _with_timeline(seen, known)
        new = self._new_surface(asked, seen, known, quiet=True) if known is not None else None
        whole = self._repository.entry(
            asked.names.whole,
            denied(refused.kind, refused.id),
            refused.tags,
            seen,
            surface=(known.over if known is not None else None) or new,
            quiet=True,
        )
        entries = [one for one in (new, whole) if one is not None]
        await self._repository.keep(seen, entries, None, asked.scope)

    def _new_surface(
        self, asked: Asked, seen: Seen, surfaced: Surfaced, *, quiet: bool = False
    ) -> NewEntry | None:
        """The surface as it is to be stored; None where it came out of the cache."""
        if surfaced.over is not None:
            return None
        return self._repository.entry(
            asked.names.surface,
            surfaced.surface.payload,
            surfaced.tags,
            seen,
            passing=surfaced.passing,
            until=surfaced.until,
            quiet=quiet,
        )


def _with_timeline(seen: Seen, known: Surfaced | None) -> Seen:
    """With the timeline of the database that was read after the look."""
    if seen.moment is None or known is None or known.timeline is None:
        return seen
    return replace(seen, moment=replace(seen.moment, timeline=known.timeline))


def _snapshot(asked: Asked, built: Built) -> SnapshotRecord:
    at = asked.effective.at
    return SnapshotRecord(
        context_id=built.context_id,
        context_hash=built.context_hash,
        workspace_id=at.workspace_id,
        user_id=at.user_id,
        scope_key=asked.scope.key,
        source=built.source,
        summary=built.summary,
        context=answered(built.payload, built.source, 0)[1],
        compression=built.compression,
        operator_trace=built.operator_trace,
        generated_at=built.generated_at,
        request_id=asked.request_id,
        trace_id=asked.trace_id,
    )
