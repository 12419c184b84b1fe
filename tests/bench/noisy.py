"""One workspace offers twice what a worker can build; how long the others wait then, and alone."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from context_engine.adapters.sql import tables as t
from tests.bench.hot import running
from tests.bench.house import BenchHouse, real_request
from tests.bench.load import Load, Measured, Request
from tests.bench.report import Goal, Measure

QUIET = tuple(f"quiet{number}" for number in range(8))
SHARE = 0.1
"""What the others ask together, cold and hot alike, of what a worker can build."""
ASKED = 200
"""How many requests of each kind they ask in a spell."""
COLD, HOT = 400, 4_000


@dataclass
class Answers:
    """Seconds that each answer took, and how many requests were turned away."""

    seconds: list[float] = field(default_factory=list)
    refused: int = 0
    unanswered: int = 0

    @property
    def p99_ms(self) -> float:
        return Measured(1.0, self.seconds).p99_ms


@dataclass
class Beside:
    """What the others got in one spell."""

    cold: Answers = field(default_factory=Answers)
    hot: Answers = field(default_factory=Answers)
    flood: Answers = field(default_factory=Answers)


async def noisy(house: BenchHouse) -> list[Measure]:
    """The others, cold and hot, alone and beside the flood, in one run."""
    await _furnish(house)
    worker = house.worker()
    async with (
        running(worker),
        Load(house.settings.kafka_bootstrap, worker.requests_topic, worker.replies_topic) as load,
    ):
        await load.flood(HOT // 4, _hot)
        hot = (await load.flood(HOT, _hot)).per_second
        await load.flood(COLD // 4, _cold)
        cold = (await load.flood(COLD, _cold, in_flight=32)).per_second
        offered = min(2 * cold, hot / 2)
        # A flood of its own for what only warms up under one: the broker, the client, this worker.
        await _spell(load, cold * SHARE, offered)
        alone = await _spell(load, cold * SHARE, 0)
        beside = await _spell(load, cold * SHARE, offered)
    turned = beside.flood.refused / (len(beside.flood.seconds) + beside.flood.refused)
    return [
        _others("cold", beside.cold, alone.cold),
        _others("hot", beside.hot, alone.hot),
        Measure("noisy: others turned away", _failed(beside) + _failed(alone), "requests",
                goal=Goal("<=", 0)),
        Measure("noisy: offered by the flood", offered, "1/s", cold, "cold builds"),
        Measure("noisy: of it turned away", turned, "of requests"),
        Measure("noisy: a worker's hot rate", hot, "1/s"),
    ]  # fmt: skip


def _others(kind: str, beside: Answers, alone: Answers) -> Measure:
    name = f"noisy: others' p99, {kind}"
    return Measure(name, beside.p99_ms, "ms", alone.p99_ms, "alone", Goal("<=", 3.0))


def _failed(spell: Beside) -> int:
    return sum(one.refused + one.unanswered for one in (spell.cold, spell.hot))


async def _spell(load: Load, asked: float, offered: float) -> Beside:
    """The others ask, and the flood, each at its times whatever came of the one before."""
    found = Beside()
    async with asyncio.TaskGroup() as lanes:
        lanes.create_task(_steadily(load, _cold, ASKED, asked, found.cold))
        lanes.create_task(_steadily(load, _hot, ASKED, asked, found.hot))
        if offered:
            flood = round(ASKED * offered / asked)
            lanes.create_task(_steadily(load, _noise, flood, offered, found.flood))
    return found


async def _steadily(
    load: Load, make: Callable[[int], Request], count: int, per_second: float, into: Answers
) -> None:
    async def ask(number: int) -> None:
        began = time.perf_counter()
        try:
            answer = await load.ask(make(number))
        except TimeoutError:
            into.unanswered += 1
            return
        if b'"code":"rate_limited"' in answer:
            into.refused += 1
        else:
            into.seconds.append(time.perf_counter() - began)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as asked:
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / per_second - time.perf_counter()))
            asked.create_task(ask(number))


def _request(number: int, workspace: str, said: str | None = None, **more: object) -> Request:
    plain = real_request(number)
    data = json.loads(plain.value)
    data["input"] |= {"workspaceId": workspace, "tableIds": [f"{workspace}.t"], "viewId": None,
                      **({} if said is None else {"message": said})}  # fmt: skip
    key = f"ana|{workspace}|{data['input']['sessionId']}".encode()
    return replace(plain, key=key, value=json.dumps({**data, **more}).encode())


def _hot(number: int) -> Request:
    return _request(number, QUIET[number % len(QUIET)])


def _cold(number: int) -> Request:
    return _request(number, QUIET[number % len(QUIET)], options={"fresh": True})


def _noise(number: int) -> Request:
    """Every other one like some before it, so that they share a build; the others like none."""
    said = f"Question {number}" if number % 2 else "The same question"
    return _request(number, "noisy", said, options={"fresh": True})


async def _furnish(house: BenchHouse) -> None:
    """Workspaces that are alike: a table of a thousand records each."""
    for workspace in (*QUIET, "noisy"):
        table = f"{workspace}.t"
        here = {"workspace_id": workspace, "table_id": table}
        add = house.world.add
        await add(t.workspaces, {"id": workspace, "name": workspace})
        await add(t.members, {"workspace_id": workspace, "user_id": "ana", "role": "admin"})
        await add(t.tables, {"id": table, "workspace_id": workspace, "name": table})
        await add(
            t.fields,
            *(
                {"id": f"{table}.f{n}", "name": f"Field {n}", "type": "text", "primary": n == 0,
                 "position": n, **here}
                for n in range(16)
            ),
        )  # fmt: skip
        await add(
            t.records,
            *({"id": f"{table}.r{n}", "cells": {f"{table}.f0": str(n)}, "created_by": "ana", **here}
              for n in range(1_000)),
        )  # fmt: skip
