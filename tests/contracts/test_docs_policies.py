"""The row policies in the documentation do in the demo workspace what is said of them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine import policy
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.reads import SqlDomain
from context_engine.adapters.sql.rows import rows_of
from context_engine.adapters.sql.services import DomainServices
from context_engine.keys import Coordinates
from context_engine.reading import visible
from tests.support.commands import Cli
from tests.support.documents import DOCUMENTS, FENCE, blocks
from tests.support.services import RecordingMarker

TASKS, WORKSPACE = "tbl-tasks", "ws-delivery"
TABLE = re.compile(r"^\| on \|(?P<people>.*)\|\n\|[-|]+\|\n(?P<days>(?:\|.*\|\n)+)", re.MULTILINE)
DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class Example:
    """Policies word for word, and how many tasks each user then sees, day by day."""

    document: str
    text: str
    counts: tuple[tuple[datetime, dict[str, int]], ...]


def examples() -> Iterator[Example]:
    """Every JSON block that is a table's policies; the table of counts stands after it."""
    for document in DOCUMENTS:
        text = document.read_text()
        for match in FENCE.finditer(text):
            if match[1] == "json" and _is_policies(match[2]):
                after = text[match.end() :].partition("```")[0]
                yield Example(document.name, match[2], tuple(_counts(after)))


def _is_policies(text: str) -> bool:
    try:
        found = json.loads(text)
    except ValueError:
        return False
    return isinstance(found, dict) and found.keys() == {"default", "policies"}


def _counts(after: str) -> Iterator[tuple[datetime, dict[str, int]]]:
    """On each day, and long after the last: from then on the figures stay."""
    found = TABLE.search(after)
    assert found, "say how many tasks are then in sight"
    people = re.findall(r"`(usr-\w+)`", found["people"])
    for line in found["days"].splitlines():
        day, *figures = (cell.strip() for cell in line.strip("|").split("|"))
        counts = dict(zip(people, map(int, figures), strict=True))
        date = DAY.match(day)
        noon = f"{date[0] if date else '2026-07-01'}T12:00"
        yield datetime.fromisoformat(noon).replace(tzinfo=UTC), counts
        if date is None or "later" in day:
            yield datetime(2031, 1, 1, 12, tzinfo=UTC), counts


EXAMPLES = list(examples())


def test_the_examples_are_found() -> None:
    """With users who see some, and some who see none or all."""
    assert len(EXAMPLES) > 1
    for one in EXAMPLES:
        figures = {count for _, counts in one.counts for count in counts.values()}
        assert len(figures) > 1
        assert any(0 < count < 700 for count in figures)


async def test_each_example_opens_what_is_said(
    cli: Cli, database: AsyncEngine, tmp_path: Path
) -> None:
    """Set word for word by the command that the page names, on the days that it names."""
    for one in EXAMPLES:
        file = tmp_path / "policies.json"
        file.write_text(one.text)
        done = await asyncio.to_thread(cli, "policy", "set", "--table", TASKS, str(file))
        assert done.exit_code == 0, done.output
        for now, counts in one.counts:
            found = {user: await count(database, user, now) for user in counts}
            assert found == counts, (one.document, now)


async def count(database: AsyncEngine, user: str, now: datetime) -> int:
    """The tasks in a user's sight, as a build of that moment counts them."""
    at = Coordinates(WORKSPACE, user, table_ids=(TASKS,))
    async with SqlDomain(database).snapshot() as reads:
        (table,) = (await visible(reads, at, now=now)).tables
    query = select(func.count()).select_from(t.records).where(rows_of(table))
    async with database.connect() as connection:
        return int((await connection.execute(query)).scalar_one())


async def test_the_predicates_in_sentences_are_taken(cli: Cli, database: AsyncEngine) -> None:
    """Those of the command's help, which `docs/commands.md` repeats: whole, and not in vain."""
    services = DomainServices(database, RecordingMarker(database), ids_as_given=True)
    found = [json.loads(text) for text in predicates()]
    assert found
    for pred in found:
        one = {"mode": "permissive", "subjects": [{"type": "user", "id": "usr-ben"}], "pred": pred}
        await services.policies.set(
            "usr-ana", WORKSPACE, TASKS, {"default": "deny_all", "policies": [one]}
        )
        assert await count(database, "usr-ben", datetime(2026, 1, 1, 12, tzinfo=UTC)) == 0
        assert 0 < await count(database, "usr-ben", datetime(2031, 1, 1, 12, tzinfo=UTC)) < 700


def predicates() -> Iterator[str]:
    """JSON objects in prose that begin as a predicate does, not those within another."""
    prose = FENCE.sub("", "".join(one.read_text() for one in DOCUMENTS))
    end = 0
    for match in re.finditer(r'\{"(?:all|any|not|linkedAny)": [\[{]"?', prose):
        if match.start() < end:
            continue
        try:
            _, end = json.JSONDecoder().raw_decode(prose, match.start())
        except ValueError:
            continue  # the grammar's own words: `{"all": [..]}`
        yield prose[match.start() : end]


def test_the_examples_in_shells_are_the_ones_that_are_counted() -> None:
    """`echo '…' | context-engine domain policy set`: the same policies, so the same counts."""
    shells = [one for block in blocks("sh") for one in re.findall(r"echo '(\{.*?\})'", block.text)]
    policies = [text for text in shells if _is_policies(text)]
    assert policies
    counted = [policy.parse_policies(json.loads(one.text)) for one in EXAMPLES]
    assert all(policy.parse_policies(json.loads(text)) in counted for text in policies)
