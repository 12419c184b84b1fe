"""One look at freshness: the judgement of a worker, and how it reads at 80 columns."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from context_engine import keys
from context_engine.ports import Place, Proof, Proofs, Pulse, Reign, Tally
from events.backlog import Waiting
from workers import freshness
from workers.cli import freshness as command
from workers.cli.terminal import people
from workers.freshness import Freshness

HERE, THERE = frozenset({Reign("a" * 80)}), frozenset({Reign("b" * 80)})
TOPICS = ("domain.permission-change", "domain.membership", "domain.conversation")
PROOFS = {
    None: Proof(HERE, 12_345, keys.VOCABULARY, 2, 2_713),
    "ended": Proof(HERE, 7, keys.VOCABULARY, 2, -754_000),
    "another reign": Proof(THERE, 7, keys.VOCABULARY, 2, 2_000),
    "other tags": Proof(HERE, 7, "0", 2, 2_000),
    "never proven": None,
}


@dataclass
class House:
    """A backlog and proofs as they are put here: one partition of each kind."""

    async def look(self) -> list[Waiting]:
        return [
            Waiting(Place(topic, partition), 7, partition * 1_200, 61_000 if partition else None)
            for topic in TOPICS
            for partition in range(2)
        ]

    async def proofs(self, places: list[Place]) -> Proofs:
        return Proofs(HERE, [*PROOFS.values(), PROOFS[None]])

    async def pulse(self) -> Pulse:
        return Pulse(0, HERE)

    async def counted(self) -> Tally:
        return Tally(1_204, 31)


async def looked() -> Freshness:
    house = House()
    return await freshness.look(house, house)  # type: ignore[arg-type]


async def test_a_partition_says_why_it_is_not_live() -> None:
    found = await looked()
    assert [one.why for one in found.partitions] == [*PROOFS, None]
    assert [one.live_ms for one in found.partitions] == [2_713, -754_000, None, None, None, 2_713]
    assert [one.applied for one in found.partitions] == [12_345, 7, 7, 7, None, 12_345]
    assert not found.live
    assert found.bypass_rate == 31 / 1_204


def test_without_answers_there_is_no_rate() -> None:
    assert Freshness((), Tally()).bypass_rate is None


async def test_people_read_it_at_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is cut, and the topic stands where its partitions begin."""
    monkeypatch.setattr(command, "console", people(width=80))
    command._as_table(await looked(), False)
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert all(len(line) <= 80 for line in lines), out
    assert "…" not in out
    assert sum(topic in out for topic in TOPICS) == len(TOPICS)
    assert [line.split()[-4:] for line in lines[1:3]] == [
        ["12,345", "for", "2.7", "s"],
        ["not", "for", "13", "min"],
    ]
    assert lines[-2:] == [
        "not live: 4 of 6 partitions",
        "1,204 answers in the last 60 s, 31 past the cache (2.6%)",
    ]


async def test_programs_read_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    """On one line where more follow."""
    command._as_json(await looked(), True)
    [line] = capsys.readouterr().out.splitlines()
    told = json.loads(line)
    assert (told["live"], told["answers"], told["bypasses"]) == (False, 1_204, 31)
    assert told["partitions"][1] == {
        "topic": TOPICS[0],
        "partition": 1,
        "lag": 1_200,
        "oldestMs": 61_000,
        "applied": 7,
        "live": False,
        "liveMs": -754_000,
        "why": "ended",
    }
