"""Dead letters: what they say of themselves, and the log of what became of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from context_engine.errors import InvalidRequest
from context_engine.settings import Settings
from events.dead_letters import REPLAY_COUNT, dead_letter, replayed
from events.ledger import CLAIM_MS, Act, Handling, Ledger, State
from events.letters import Letter, LetterPlace, Wanted, letter_of, place_of
from events.records import OutgoingRecord, RawMessage
from events.topics import Topics
from workers.cli.letter import show_letter, whole_json
from workers.cli.terminal import json_text

pytestmark = pytest.mark.unit

TOPICS = Topics.of(Settings.model_validate({"tag_secret": "s" * 32}))
DLT = "context.build-requests-dlt"


def buried(record: OutgoingRecord, offset: int = 17, at_ms: int = 5_000) -> RawMessage:
    return RawMessage(
        record.topic, record.partition or 0, offset, at_ms, record.key, record.value, record.headers
    )


def a_letter(value: bytes | None = b"{}", at_ms: int = 5_000) -> Letter:
    source = RawMessage("context.build-requests", 3, 7, 1_000, b"k", value, ())
    return letter_of(buried(dead_letter(source, InvalidRequest("bad"), "g"), at_ms=at_ms))


class Log:
    """A ledger, written by operators `a`, `b` ..."""

    def __init__(self) -> None:
        self.ledger, self.letter = Ledger(), a_letter()

    def write(self, act: Act, claim: str, when_ms: int = 0) -> None:
        place = str(self.letter.place)
        line = Handling(letter=place, at_ms=self.letter.at_ms, act=act, claim=claim)
        self.ledger.apply(line, when_ms)

    @property
    def state(self) -> tuple[str, str] | None:
        state = self.ledger.state(self.letter)
        return (state.act, state.claim) if state is not None else None


def test_of_two_claims_the_first_holds_until_it_is_void() -> None:
    """Whoever reads the log finds the same; one that nothing followed ends by itself."""
    log = Log()
    log.write("claimed", "a", 1_000)
    log.write("claimed", "b", 1_000 + CLAIM_MS)
    assert log.state == ("claimed", "a")
    assert not log.ledger.handled(log.letter)
    log.write("claimed", "c", 1_001 + CLAIM_MS)
    assert log.state == ("claimed", "c")


def test_a_claim_is_given_back_by_its_owner_only() -> None:
    log = Log()
    log.write("claimed", "a")
    log.write("released", "b")
    assert log.state == ("claimed", "a")
    log.write("released", "a")
    assert log.state is None


@pytest.mark.parametrize("act", ["replayed", "discarded"])
def test_what_is_handled_stays_so(act: Act) -> None:
    """Whoever says so, and whatever is written later."""
    log = Log()
    log.write("claimed", "a")
    log.write(act, "a")
    for later in ("claimed", "released", "replayed", "discarded"):
        log.write(later, "b", 10 * CLAIM_MS)  # type: ignore[arg-type]
    assert log.state == (act, "a")
    assert log.ledger.handled(log.letter)


def test_a_topic_made_anew_has_other_letters() -> None:
    """Their offsets begin again: what was said of the old ones hides none of the new."""
    log = Log()
    log.write("discarded", "a")
    assert not log.ledger.handled(a_letter(at_ms=6_000))


def test_a_letter_says_where_it_came_from_and_whose_it_is() -> None:
    value = b'{"requestId":"r","input":{"workspaceId":"w1"}}'
    letter = a_letter(value)
    assert (letter.original_topic, letter.original_offset, letter.original_ms) == (
        "context.build-requests",
        7,
        1_000,
    )
    assert (letter.error, letter.reason, letter.replays) == ("InvalidRequest", "bad", 0)
    assert "w1" in letter.workspace_ids
    assert str(letter.place) == f"{DLT}/3/17"


HOSTILE = {
    "no headers": RawMessage(DLT, 0, 1, 0, None, None, ()),
    "numbers of other lengths": RawMessage(
        DLT, 0, 1, 0, b"\xff", b"[" * 100_000, (("kafka_dlt-original-offset", b"123"),)
    ),
    "null headers": RawMessage(
        DLT, 0, 1, 0, b"", b"null", ((REPLAY_COUNT, None), ("kafka_dlt-exception-message", None))
    ),
    "a count that is none": RawMessage(DLT, 0, 1, 0, b"", b"1", ((REPLAY_COUNT, b"9" * 5_000),)),
    "times that no calendar has": RawMessage(
        DLT, 0, 1, 2**62, b"", b"[NaN]", (("kafka_dlt-original-timestamp", b"\x7f" * 8),)
    ),
    "half a character": RawMessage(DLT, 0, 1, -1, b"", b'"\\ud800\x1b[2J"', ()),
    "long words": RawMessage(
        DLT, 0, 1, 0, b"k" * 999, b'{"input":7}', (("kafka_dlt-exception-fqcn", b"\xff" * 9_999),)
    ),
}  # fmt: skip


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE)
def test_whatever_is_there_is_read_within_bounds(raw: RawMessage) -> None:
    """Who may write to the topic may write anything."""
    letter = letter_of(raw)
    assert letter.replays == 0
    assert len(letter.error) + len(letter.reason) < 3_000
    assert letter.workspace_ids == ()
    assert letter in Wanted()


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE)
def test_whatever_is_there_is_shown_and_steers_no_terminal(
    raw: RawMessage, capsys: pytest.CaptureFixture[str]
) -> None:
    """For programs it is JSON, for people text that prints."""
    letter, state = letter_of(raw), State("claimed", "a", 2**62)
    json_text(whole_json(letter, raw, state)).encode()
    show_letter(letter, raw, state, whole=True)
    out = capsys.readouterr().out
    assert str(letter.place) in out
    assert out.replace("\n", "").isprintable()


def test_numbers_of_a_burial_are_shown_as_people_write_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where it came from and how often, in decimal digits; a foreign one stays as it is."""
    source = RawMessage("context.build-requests", 3, 7, 1_000, b"k", b"{}", ((REPLAY_COUNT, b"1"),))
    raw = buried(dead_letter(source, InvalidRequest("bad"), "g"))
    odd = ("kafka_dlt-original-partition", b"\x00\x01")
    raw = replace(raw, headers=(*raw.headers, odd))
    show_letter(letter_of(raw), raw, None, whole=True)
    out = capsys.readouterr().out
    assert "workspace k  after 1 replay\n" in out
    for line in ("partition: 3", "offset: 7", "timestamp: 1000", "partition: 0x0001"):
        assert f"  kafka_dlt-original-{line}\n" in out


def test_the_count_outlives_another_burial() -> None:
    """However many headers a message has, the count is kept, and replaces the one before."""
    many = tuple((f"h{n}", b"x" * 1_000) for n in range(2_000))
    source = RawMessage("context.build-requests", 3, 7, 1_000, b"k", b"{}", many)
    first = buried(dead_letter(source, InvalidRequest("bad"), "g"))
    again = replayed(first, 1)
    assert again.topic == "context.build-requests"
    assert not any(name.startswith("kafka_dlt-") for name, _ in again.headers)
    second = buried(dead_letter(buried(again), InvalidRequest("bad"), "g"))
    assert letter_of(second).replays == 1
    assert [name for name, _ in replayed(second, 2).headers].count(REPLAY_COUNT) == 1


@pytest.mark.parametrize(
    "text", [f"{DLT}/3", f"{DLT}/x/1", f"{DLT}/1/-1", "other/1/2", "", "a/b/c"]
)
def test_what_names_no_letter_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        place_of(text, TOPICS)


def test_a_place_reads_as_it_is_shown() -> None:
    assert place_of(f"{DLT}/3/17", TOPICS) == LetterPlace(DLT, 3, 17)
