"""Breadth first through every state: so the first violation found is one of the shortest."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)

Step = tuple[str, S, str]
"""What is done, the state that it leads to, and the promise that it breaks or ''."""

Steps = Callable[[S], Iterator[Step[S]]]


@dataclass(frozen=True, slots=True)
class Outcome(Generic[S]):
    """What a walk came to."""

    states: int
    transitions: int
    depth: int
    """Steps to the furthest state that was reached, or to the violation."""
    seconds: float
    """Of the processor."""
    whole: bool
    """Whether every state was reached; False where a bound or a violation ended the walk."""
    broken: str
    """The promise that the last step breaks; '' for none."""
    trace: tuple[tuple[str, S], ...]
    """The shortest way to the violation: what was done, and the state after it."""

    def __str__(self) -> str:
        end = "all of them" if self.whole else self.broken or "not all of them"
        return (
            f"{self.states:,} states, {self.transitions:,} transitions, depth {self.depth}, "
            f"{self.seconds:.1f} s: {end}"
        )


def explore(
    start: S, steps: Steps[S], *, most: int = 10_000_000, remembering: bool = True
) -> Outcome[S]:
    """Walks until there is nothing new, a promise is broken, or `most` states were seen.

    A state is known by its hash of 64 bits: of ten million, two fall together once in 400,000
    walks. `remembering` the ways there takes twice the memory; without it there is no trace.
    """
    began = time.process_time()
    seen: dict[int, int] = {hash(start): 0}
    level, depth, transitions = [start], 0, 0
    while level and len(seen) < most:
        found: list[S] = []
        for state in level:
            here = hash(state) if remembering else 0
            for _, after, broken in steps(state):
                transitions += 1
                if broken:
                    trace = _way(start, steps, seen, state, after) if remembering else ()
                    spent = time.process_time() - began
                    return Outcome(len(seen), transitions, depth + 1, spent, False, broken, trace)
                key = hash(after)
                if key not in seen:
                    seen[key] = here
                    found.append(after)
        level = found
        depth += bool(level)
    spent = time.process_time() - began
    return Outcome(len(seen), transitions, depth, spent, not level, "", ())


def _way(
    start: S, steps: Steps[S], seen: dict[int, int], last: S, after: S
) -> tuple[tuple[str, S], ...]:
    """The steps from `start` over `last` to `after`, found again by the hashes on the way."""
    hashes, key = [hash(last)], hash(last)
    while key != hash(start):
        key = seen[key]
        hashes.append(key)
    way: list[tuple[str, S]] = []
    state = start
    for wanted in reversed(hashes[:-1]):
        said, state = next((w, s) for w, s, _ in steps(state) if hash(s) == wanted)
        way.append((said, state))
    said = next(w for w, s, broken in steps(state) if broken and s == after)
    return (*way, (said, after))
