"""All steps of all actors, walked through; and how a violation came about, to be read."""

from __future__ import annotations

from collections.abc import Iterator

from tests.properties.model import consumers, environment, relays, requests, writers
from tests.properties.model.explorer import Outcome, Step, explore
from tests.properties.model.state import State
from tests.properties.model.world import World, start


def walk(world: World, *, most: int = 10_000_000, remembering: bool = True) -> Outcome[State]:
    """Through every state that `world` can come to."""

    def steps(state: State) -> Iterator[Step[State]]:
        if requests.over(world, state):
            return
        yield from writers.steps(world, state)
        yield from requests.steps(world, state)
        yield from environment.steps(world, state)
        if world.partitions:
            yield from relays.steps(world, state)
            yield from consumers.steps(world, state)

    return explore(start(world), steps, most=most, remembering=remembering)


def timeline(outcome: Outcome[State]) -> str:
    """One line for each step: its number, the time, what is done, and what then stands."""
    lines = [f"{outcome.broken}, in {outcome.depth} steps"]
    for number, (said, state) in enumerate(outcome.trace, start=1):
        lines.append(f"{number:>3}  t={state.now}  {said:<66} {_standing(state)}")
    return "\n".join(lines)


def _standing(state: State) -> str:
    """The servers in short: clock and mark, and the answer's version with its stamp."""
    told = []
    for name, server in zip("AB", state.servers, strict=True):
        store = server.store
        if not server.reign and not store.hash and not store.entry:
            continue
        marks = f"clock {store.hash.clock} mark {store.hash.mark}" if store.hash else "no marks"
        answer = f"v{store.entry.version}@{store.entry.clock}" if store.entry else "-"
        told.append(f"{name}{'' if server.reign else '(silent)'}[{marks}, {answer}]")
    return " ".join(told)
