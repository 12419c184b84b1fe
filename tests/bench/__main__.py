"""`make bench`: `python -m tests.bench [hot,cold,...]`, all of `BENCHES` by default."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from rich.console import Console

from tests.bench.builds import cold, dialogues
from tests.bench.changes import evictions
from tests.bench.denials import denied
from tests.bench.flights import flights
from tests.bench.flow import flow
from tests.bench.hits import hits
from tests.bench.hot import hot_measures, measure_rounds, running
from tests.bench.house import BenchHouse, bench_house, real_request
from tests.bench.imports import imports
from tests.bench.load import Load
from tests.bench.marks import marks
from tests.bench.noisy import noisy
from tests.bench.observed import observed
from tests.bench.peers import peers
from tests.bench.report import Goal, Measure, show, write
from tests.bench.restarts import restarts
from tests.bench.revocations import taken_back
from tests.bench.rules import rules
from tests.bench.sizes import large, million
from tests.bench.vain import in_vain
from workers.localstack import LocalStackError, kafka_jars
from workers.logs import configure
from workers.runner import run

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
REQUESTS = 20_000
MEMORY_MB = 150


async def hot(house: BenchHouse) -> list[Measure]:
    """The real worker beside its baselines."""
    settings, worker = house.settings, house.worker()
    found = await measure_rounds(
        settings.kafka_bootstrap,
        settings.redis_url,
        worker,
        rounds=ROUNDS,
        requests={worker.name: real_request},
    )
    return hot_measures(found, worker.name)


async def evict(house: BenchHouse) -> list[Measure]:
    """How soon a change ends what it made untrue."""
    return await evictions(house)


async def memory(house: BenchHouse) -> list[Measure]:
    """The build worker's resident memory after 10,000 and 20,000 requests."""
    worker, sizes = house.worker(), []
    async with (
        running(worker) as process,
        Load(house.settings.kafka_bootstrap, worker.requests_topic, worker.replies_topic) as load,
    ):
        for _ in range(2):
            await load.flood(REQUESTS // 2, real_request)
            sizes.append(_resident_mb(process.pid))
    return [
        Measure(
            "worker's memory after 20,000 requests", sizes[1], "MB", goal=Goal("<=", MEMORY_MB)
        ),
        Measure(
            "the same / after 10,000", sizes[1], "MB", sizes[0], "10,000 requests", Goal("<=", 1.1)
        ),
    ]


def _resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


BENCHES: dict[str, Callable[[BenchHouse], Awaitable[list[Measure]]]] = {
    "hot": hot,
    "cold": cold,
    "dialogue": dialogues,
    "denied": denied,
    "flights": flights,
    "rules": rules,
    "large": large,
    "million": million,
    "evict": evict,
    "vain": in_vain,
    "marks": marks,
    "revocations": taken_back,
    "flow": flow,
    "hits": hits,
    "peers": peers,
    "restarts": restarts,
    "noisy": noisy,
    "observed": observed,
    "memory": memory,
    "import": imports,
}


async def _broker() -> tuple[str, str]:
    """Apache Kafka where Java 17 and Maven are there, else the small broker; and why."""
    try:
        await kafka_jars(on_progress=print)
    except LocalStackError as error:
        return "small", f"the small broker ({error.message})"
    return "maven", "Apache Kafka"


async def main(names: list[str]) -> int:
    """Runs the benchmarks; 1 where a goal does not hold."""
    unknown = [name for name in names if name not in BENCHES]
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(BENCHES)}")
        return 2
    configure(json_lines=False, level=logging.WARNING)
    console = Console()
    kafka, broker = await _broker()
    console.print(f"on {broker}", style="dim")
    measures: list[Measure] = []
    async with bench_house(kafka) as house:
        for name in names or BENCHES:
            console.print(f"measuring: {name}", style="dim")
            measures += await BENCHES[name](house)
    write(measures)
    return 0 if show(measures, console) else 1


if __name__ == "__main__":
    chosen = [name for argument in sys.argv[1:] for name in argument.split(",") if name]
    # On the loop that the workers run on; baselines in this process have it too.
    raise SystemExit(run(main(chosen)))
