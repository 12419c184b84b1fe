"""Which tests are left out where the e2e suite runs again on Apache Kafka."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

E2E = sorted((Path(__file__).parents[1] / "e2e").glob("test_*.py"))
MARKED = re.compile(r"^pytestmark = (?:\[[^\]]*)?pytest\.mark\.any_broker\b", re.MULTILINE)
BY_THE_BROKER = re.compile(
    r"\.emit\(|subscribe_|house\[|\btests\.support\.line\b|\bTail\(|\bAIOKafka"
)
"""What a test does by which a broker shows: sends changes, follows topics, takes the session's
workers away, reads with clients of its own."""


@pytest.mark.parametrize("file", E2E, ids=lambda file: file.stem)
def test_no_file_is_left_out_as_a_whole_in_which_the_broker_matters(file: Path) -> None:
    """A test that is added to it would be left out too, in silence."""
    text = file.read_text()
    assert not (MARKED.search(text) and BY_THE_BROKER.search(text))


def test_files_are_left_out_and_others_are_not() -> None:
    marked = {file.stem for file in E2E if MARKED.search(file.read_text())}
    assert {"test_docs", "test_stopping"} <= marked
    assert not marked & {"test_at_least_once", "test_liveness", "test_invalidation_killed"}
