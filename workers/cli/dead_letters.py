"""`dead-letters …`: what could not be handled, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Optional, TypeVar

import typer
from rich.table import Table
from rich.text import Text

from context_engine.errors import InvalidRequest
from workers.cli.evidence import line, moment, said, warn_operator
from workers.cli.letter import after_replays, at, letter_json, show_letter, whole_json
from workers.cli.shared import Exit, JsonFlag, Misused, config, console, run, show_json, stderr
from workers.cli.terminal import plural

if TYPE_CHECKING:
    from context_engine.settings import Settings
    from events.ledger import Act
    from events.letterbox import Progress
    from events.letters import Letter, LetterPlace, Wanted
    from workers.dead_letters import Outcome

T = TypeVar("T")
Words = Optional[str]  # noqa: UP045 - typer reads this at run time
NONE: list[str] = []
MOST = 1_000
"""Letters that one page lists at most."""

app = typer.Typer(no_args_is_help=True, help="What could not be handled: look, replay, discard.")

Letters = Annotated[
    Optional[list[str]],  # noqa: UP045 - typer reads this at run time
    typer.Argument(metavar="LETTER...", help="TOPIC/PARTITION/OFFSET, as list shows it."),
]
OfTopic = Annotated[
    list[str], typer.Option("--topic", help="Only of this topic, repeatable: with -dlt or not.")
]
OfReason = Annotated[Words, typer.Option("--reason", help="Part of the reason or of its class.")]
OfWorkspace = Annotated[Words, typer.Option("--workspace", help="Only of this workspace.")]
Since = Annotated[
    Words, typer.Option(help="Buried since: 2026-05-01, 2026-05-01T09:30 (local), or 90m, 2d ago.")
]
Until = Annotated[Words, typer.Option(help="Buried before; the same forms.")]
Every = Annotated[bool, typer.Option("--all", help="All that there are.")]


@app.command("list")
def list_(
    topic: OfTopic = NONE,
    reason: OfReason = None,
    workspace: OfWorkspace = None,
    since: Since = None,
    until: Until = None,
    after: Annotated[Words, typer.Option(help="The next page: what is behind this letter.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="How many at most.")] = 50,
    as_json: JsonFlag = False,
) -> None:
    """Lists what nobody has replayed or discarded, the oldest first. Kept for 14 days.

    Example: context-engine dead-letters list --reason InvalidRequest --since 2d
    """
    from workers.dead_letters import page, topics_of

    settings = config()
    wanted = _wanted(reason, workspace, since, until)
    behind = _places(settings, [after])[0] if after is not None else None
    topics = topics_of(settings, topic)
    found = _reading(
        lambda told: page(settings, topics, wanted, limit=limit, after=behind, progress=told)
    )
    more = str(found.letters[-1].place) if found.matched > len(found.letters) else None
    if as_json:
        letters = [letter_json(one) for one in found.letters]
        show_json({"letters": letters, "matched": found.matched, "after": more})
        return
    if not found.letters:
        line("no dead letters that fit")
        return
    console.print(_listed(found.letters))
    if more is not None:
        line(f"{len(found.letters)} of {found.matched:,}; the next: add --after {more}")


@app.command("show")
def show(
    letter: Annotated[str, typer.Argument(help="TOPIC/PARTITION/OFFSET, as list shows it.")],
    whole: Annotated[bool, typer.Option("--whole", help="The body to its end.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Shows one letter with its headers and its body. The body is a tenant's data: for operators.

    Example: context-engine dead-letters show context.build-requests-dlt/3/17
    """
    from events.letters import letter_of
    from workers.dead_letters import read_one

    settings = config()
    (place,) = _places(settings, [letter])
    raw, state = run(read_one(settings, place))
    warn_operator("For operators only: the body is what a tenant sent.")
    found = letter_of(raw)
    if as_json:
        show_json(whole_json(found, raw, state))
    else:
        show_letter(found, raw, state, whole=whole)


@app.command("replay")
def replay(
    letters: Letters = None,
    topic: OfTopic = NONE,
    reason: OfReason = None,
    workspace: OfWorkspace = None,
    since: Since = None,
    until: Until = None,
    every: Every = False,
    as_json: JsonFlag = False,
) -> None:
    """Sends letters to the topic they came from, once more, as they came; they are handled then.

    Their ids, keys and headers stay. What fails again comes back as a new letter, with a count.
    Exits with 1 where one could not be sent.

    Example: context-engine dead-letters replay --topic context.build-requests --since 2h
    """
    wanted = _wanted(reason, workspace, since, until)
    _handled("replayed", letters, topic, wanted, every, as_json)


@app.command("discard")
def discard(
    letters: Letters = None,
    topic: OfTopic = NONE,
    reason: OfReason = None,
    workspace: OfWorkspace = None,
    since: Since = None,
    until: Until = None,
    every: Every = False,
    as_json: JsonFlag = False,
) -> None:
    """Notes that letters need nothing more: list leaves them out. Kafka removes them in time.

    Example: context-engine dead-letters discard context.build-requests-dlt/3/17
    """
    wanted = _wanted(reason, workspace, since, until)
    _handled("discarded", letters, topic, wanted, every, as_json)


def _handled(
    act: Act,
    letters: list[str] | None,
    topic: list[str],
    wanted: Wanted,
    every: bool,
    as_json: bool,
) -> None:
    """Letters by name, or those that fit; all of them only where that is said."""
    from events.letters import Wanted
    from workers.dead_letters import handle, topics_of

    filtered = bool(topic) or wanted != Wanted()
    if sum((bool(letters), filtered, every)) != 1:
        raise Misused("name letters, or say which by options, or --all", field="letters")
    settings = config()
    places = _places(settings, letters or [])
    topics = topics_of(settings, topic)
    outcome = _reading(
        lambda told: handle(
            settings, act, places=places, topics=topics, wanted=wanted, progress=told
        )
    )
    if as_json:
        show_json(
            {
                act: outcome.done,
                "already": outcome.already,
                "byOthers": outcome.others,
                "skipped": outcome.skipped,
                "why": [{"letter": one, "reason": why} for one, why in outcome.why],
            }
        )
    else:
        for text in _told(act, outcome):
            line(text)
    raise typer.Exit(Exit.FAILED if outcome.skipped else Exit.OK)


def _told(act: str, outcome: Outcome) -> Iterator[str]:
    yield f"{plural(outcome.done, 'letter')} {act}"
    if outcome.already:
        yield f"{outcome.already:,} handled before"
    if outcome.others:
        yield f"{outcome.others:,} claimed by somebody who is at it; try again in two minutes"
    for place, why in outcome.why:
        yield f"skipped: {place} {why}"
    if outcome.skipped > len(outcome.why):
        yield f"and {outcome.skipped - len(outcome.why):,} more were skipped"


def _wanted(reason: Words, workspace: Words, since: Words, until: Words) -> Wanted:
    from events.letters import Wanted

    return Wanted(reason, workspace, _ms(moment(since)), _ms(moment(until, "--until")))


def _ms(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1_000)


def _places(settings: Settings, texts: list[str]) -> list[LetterPlace]:
    from events.letters import place_of
    from events.topics import Topics

    try:
        return [place_of(text, Topics.of(settings)) for text in texts]
    except InvalidRequest as error:
        raise Misused(error.message.partition(": ")[2], field="letters") from None


def _reading(work: Callable[[Progress], Coroutine[object, object, T]]) -> T:
    """Runs what takes a `Progress`, which is shown on stderr."""
    with stderr.status("reading dead letters") as status:

        def told(read: int, of: int) -> None:
            status.update(f"reading dead letters: {read:,} of {of:,}")

        return run(work(told))


def _listed(letters: list[Letter]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("buried", no_wrap=True)
    table.add_column("letter; why; whose", overflow="fold")
    for one in letters:
        replays = after_replays(one)
        about = Text.assemble(
            (str(one.place), "bold"), (replays, "yellow"), "\n",
            (f"{one.error[:60]}  ", "cyan"), said(one.reason), "\n",
            said(", ".join(one.workspace_ids) or "workspace unknown", "dim"),
        )  # fmt: skip
        table.add_row(at(one.at_ms), about)
    return table
