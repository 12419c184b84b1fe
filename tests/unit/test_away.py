"""What is said of a broker that cannot be reached."""

from __future__ import annotations

import pytest
from aiokafka.errors import KafkaConnectionError, KafkaTimeoutError

from events.away import reason

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TimeoutError(), "no answer in time"),
        (KafkaConnectionError("Unable to bootstrap from [('h', 1)]"), "no connection"),
        (KafkaTimeoutError(), "KafkaTimeoutError"),
        (KafkaConnectionError("nobody there"), "nobody there"),
    ],
)
def test_a_reason_is_in_words(error: Exception, words: str) -> None:
    """What an error of Python's leaves unsaid is said; a name of Kafka's stays, to look it up."""
    assert reason(error) == words
