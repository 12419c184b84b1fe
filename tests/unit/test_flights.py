"""Single flight: who may have the answer of a build under way, and who ends it."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import dataclass, field
from typing import Any

import pytest

from context_engine.flights import Flight, Flights


@dataclass
class Build:
    """A build that ends when it is told to."""

    end: asyncio.Event = field(default_factory=asyncio.Event)
    fault: Exception | None = None
    ended_by: str = "nothing"

    async def __call__(self, _: Flight[str]) -> str:
        try:
            await self.end.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # what it holds is given back
            self.ended_by = "cancelled"
            raise
        self.ended_by = "itself"
        if self.fault is not None:
            raise self.fault
        return "answer"


def test_it_serves_who_arrived_before_its_clock_was_read() -> None:
    """And who arrived in that very moment; nobody who came after."""

    async def go() -> None:
        build = Build()
        flight = Flights[str]().begin("n", build)
        assert flight.serves(9.0)  # not read yet: who is here by now boards
        flight.read_at = 5.0
        assert [flight.serves(arrived) for arrived in (4.0, 5.0, 5.1)] == [True, True, False]
        build.end.set()
        await flight.ended()

    asyncio.run(go())


async def test_there_is_one_of_a_name_until_it_has_landed() -> None:
    flights, build = Flights[str](), Build()
    flight = flights.begin("n", build)
    assert flights.under_way("n") is flight
    assert flights.under_way("m") is None
    build.end.set()
    await flight.ended()
    assert flight.answer() == "answer"
    assert flights.under_way("n") is None


async def test_one_that_has_ended_takes_nobody_in() -> None:
    """Even in the turn of the loop in which it ended, before anybody was told: whoever came then
    would find it again and again, and never let it go."""
    flights = Flights[str]()

    async def fly(_: Flight[str]) -> str:
        return "answer"

    flight = flights.begin("n", fly)

    async def comes() -> tuple[bool, Flight[str] | None]:
        return flight.task.done(), flights.under_way("n")

    assert await asyncio.create_task(comes()) == (True, None)


async def test_one_that_was_given_up_serves_nobody() -> None:
    """It may be found by a request that does not wait for it yet: that goes into the next one."""
    flights, build = Flights[str](), Build()
    flight = flights.begin("n", build)
    only = asyncio.create_task(flight.ended())
    await asyncio.sleep(0)
    flight.read_at = 5.0
    assert flight.serves(4.0)
    only.cancel()
    await asyncio.wait((only,))
    assert not flight.serves(4.0)


async def test_who_stops_waiting_ends_it_only_as_the_last() -> None:
    """And waits until what it holds is given back."""
    flights, build = Flights[str](), Build()
    flight = flights.begin("n", build)
    *others, last = (asyncio.create_task(flight.ended()) for _ in range(3))
    await asyncio.sleep(0)
    for other in others:
        other.cancel()
        await asyncio.wait((other,))
        assert (other.cancelled(), flight.task.cancelling()) == (True, 0)
    last.cancel()
    await asyncio.wait((last,))
    assert (last.cancelled(), build.ended_by) == (True, "cancelled")
    assert flights.under_way("n") is None


async def test_a_flight_that_is_being_ended_takes_nobody_in() -> None:
    """Who comes meanwhile gets a flight of their own, not the end of another's."""
    flights, build = Flights[str](), Build()
    flight = flights.begin("n", build)
    waiting = asyncio.create_task(flight.ended())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    assert flight.task.cancelling()
    assert flights.under_way("n") is None
    other = Build()
    another = flights.begin("n", other)
    await asyncio.wait((waiting,))
    assert flights.under_way("n") is another
    other.end.set()
    await another.ended()


@pytest.mark.parametrize("ended", [False, True])
async def test_a_flight_that_nobody_asks_for_says_nothing(ended: bool) -> None:
    """Neither its fault, where whoever began it stopped waiting, nor that it was ended."""
    said: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: said.append(context))
    try:
        build = Build(fault=ValueError("broken"))
        flight = Flights[str]().begin("n", build)
        assert flight.task.get_name() == "build"
        await asyncio.sleep(0)
        if ended:
            flight.task.cancel()
        build.end.set()
        await asyncio.wait((flight.task,))
        await asyncio.sleep(0)
        del flight
        gc.collect()
    finally:
        loop.set_exception_handler(None)
    assert said == []


async def test_a_fault_is_everyones_who_may_have_the_answer() -> None:
    """Each that asks for it gets it; nobody has to, and nothing is said behind anyone's back."""
    flights, build = Flights[str](), Build(fault=ValueError("broken"))
    flight = flights.begin("n", build)
    build.end.set()
    await asyncio.gather(flight.ended(), flight.ended())
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            flight.answer()
