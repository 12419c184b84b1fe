"""The finished prefix: nothing is acknowledged past a request that still runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.acks import FinishedPrefix

pytestmark = pytest.mark.unit


def test_a_slow_head_holds_everything_behind_it() -> None:
    """Requests behind an unfinished head wait, and all leave together when it finishes."""
    prefix: FinishedPrefix[int] = FinishedPrefix()
    head, *rest = [prefix.take(offset) for offset in (31, 32, 33, 34)]
    assert [slot.finish() for slot in rest] == [[], [], []]
    assert head.finish() == [31, 32, 33, 34]
    assert prefix.unreleased == 0


def test_holes_in_the_offsets_do_not_hold_anything() -> None:
    """Compaction and transaction markers leave holes; only the order taken counts."""
    prefix: FinishedPrefix[int] = FinishedPrefix()
    assert prefix.take(7).finish() == [7]
    assert prefix.take(90).finish() == [90]


def test_nothing_is_acknowledged_after_the_partition_was_taken_away() -> None:
    """Work that outlives a revoked partition finishes without an acknowledgement."""
    prefix: FinishedPrefix[int] = FinishedPrefix()
    slow, quick = prefix.take(1), prefix.take(2)
    prefix.abandon()
    assert quick.finish() == []
    assert slow.finish() == []


def test_finishing_twice_acknowledges_once() -> None:
    """A second finish of the same request releases nothing again."""
    prefix: FinishedPrefix[int] = FinishedPrefix()
    slot = prefix.take(1)
    assert slot.finish() == [1]
    assert slot.finish() == []


@given(order=st.permutations(range(12)), begun=st.integers(min_value=0, max_value=12))
def test_released_is_always_the_longest_finished_prefix(order: list[int], begun: int) -> None:
    """However requests finish, those released are a prefix without a gap, and maximal."""
    prefix: FinishedPrefix[int] = FinishedPrefix()
    slots = [prefix.take(offset) for offset in range(12)]
    finished: set[int] = set()
    released: list[int] = []
    for offset in order[:begun]:
        finished.add(offset)
        released += slots[offset].finish()
        expected = next((n for n in range(12) if n not in finished), 12)
        assert released == list(range(expected))
    assert prefix.unreleased == 12 - len(released)
