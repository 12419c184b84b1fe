"""Imports beside bare COPY, and cold builds over a whole imported workspace."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

import asyncpg

from context_engine.adapters.baserow import read_workspace
from context_engine.engine import Options
from context_engine.loading import NewWorkspace
from context_engine.models import ContextBuildInput
from tests.bench.house import BenchHouse
from tests.bench.report import Goal, Measure
from tests.support.exported import as_bytes, generated
from tests.support.shared_data import SHARED
from tests.support.world import Statements

LARGEST = SHARED / "baserow" / "supply-chain-procurement-management.json"
ROWS = 100_000
ROUNDS = 3
BUILDS = 100
COLUMNS = ("id", "workspace_id", "table_id", "cells", "created_at", "updated_at")
LINK_COLUMNS = ("field_id", "from_record_id", "to_record_id", "workspace_id")


def largest() -> tuple[bytes, str]:
    """The largest shared file, or one of its size where there is none."""
    if LARGEST.exists():
        return LARGEST.read_bytes(), "largest file"
    return as_bytes(generated(257, of=17)), "generated file of 17 tables"


async def imports(house: BenchHouse) -> list[Measure]:
    """The command on the largest file; many rows beside the same rows by the driver's COPY."""
    data, called = largest()
    seconds = [await _command(house, data, f"Bench {n}") for n in range(ROUNDS)]
    many = as_bytes(generated(ROWS))
    ours, bare = [], []
    for number in range(ROUNDS):
        name = f"Many {number}"
        started = time.perf_counter()
        made = read_workspace(many, name=name)
        await house.parts.services.imports.load("bench", made, admin_id="ana")
        ours.append(time.perf_counter() - started)
        bare.append(await _copied(house, made))
    return [
        Measure(
            f"import: {called}, read to committed",
            median(own for own, _ in seconds),
            "s",
            goal=Goal("<=", 3.0),
        ),
        Measure("import: the same, the whole command", median(all for _, all in seconds), "s"),
        Measure(
            f"import: {ROWS:,} rows / COPY",
            median(ours),
            "s",
            median(bare),
            "COPY",
            Goal("<=", 2.0),
            ratios=tuple(a / b for a, b in zip(ours, bare, strict=True)),
        ),
        *await _whole(house, data),
    ]


async def _command(house: BenchHouse, data: bytes, name: str) -> tuple[float, float]:
    """One run of the command: the seconds that it tells, and those from its start to its end."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "file.json"
        file.write_bytes(data)
        command = [sys.executable, "-m", "workers", "import", "baserow", str(file)]
        started = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            *command,
            "--workspace",
            name,
            "--json",
            env=house.env,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        told, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"import failed with {process.returncode}")
        return json.loads(told)["seconds"], time.perf_counter() - started


@asynccontextmanager
async def _driver(house: BenchHouse) -> AsyncIterator[asyncpg.Connection]:
    url = house.settings.database_url.get_secret_value().replace("+asyncpg", "")
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def _copied(house: BenchHouse, made: NewWorkspace) -> float:
    """Takes the rows of a loaded workspace out, and times putting the same ones in by COPY."""
    rows = [(r.id, made.id, r.table_id, r.cells, r.created_at, r.updated_at) for r in made.rows]
    links = [(*link, made.id) for link in made.links]
    async with _driver(house) as connection:
        await connection.execute("DELETE FROM records WHERE workspace_id = $1", made.id)
        await connection.execute("VACUUM ANALYZE records, links")
        started = time.perf_counter()
        async with connection.transaction():
            await connection.copy_records_to_table("records", columns=COLUMNS, records=rows)
            await connection.copy_records_to_table("links", columns=LINK_COLUMNS, records=links)
        seconds = time.perf_counter() - started
        await connection.execute("DELETE FROM workspaces WHERE id = $1", made.id)
        await connection.execute("VACUUM records, links")
    return seconds


async def _whole(house: BenchHouse, data: bytes) -> list[Measure]:
    """Cold builds over every table of the workspace in turn with builds over one of them."""
    made = read_workspace(data, name="Whole")
    await house.parts.services.imports.load("bench", made, admin_id="ana")
    ids = [table.id for table in made.tables]
    one, all_of_them = _request(made, ids[:1]), _request(made, ids)
    statements = [await _statements(house, asked) for asked in (one, all_of_them)]
    few, many = [], []
    for _ in range(BUILDS):
        few.append(await _timed(house, one))
        many.append(await _timed(house, all_of_them))
    return [
        Measure(
            f"cold build: {len(ids)} tables / 1",
            median(many),
            "ms",
            median(few),
            "1 table",
            Goal("<=", 3.0),
            ratios=tuple(a / b for a, b in zip(many, few, strict=True)),
        ),
        Measure(
            f"cold build, {len(ids)} tables: statements",
            statements[1],
            "count",
            statements[0],
            "1 table",
            Goal("<=", 1.0),
        ),
    ]


def _request(made: NewWorkspace, ids: list[str]) -> ContextBuildInput:
    asked: dict[str, Any] = {"userId": "ana", "workspaceId": made.id, "tableIds": ids}
    return ContextBuildInput.model_validate(asked)


async def _statements(house: BenchHouse, asked: ContextBuildInput) -> int:
    await house.parts.engine.build(asked, Options(fresh=True))
    async with Statements(house.parts.database) as seen:
        await house.parts.engine.build(asked, Options(fresh=True))
    return len(seen.seen)


async def _timed(house: BenchHouse, asked: ContextBuildInput) -> float:
    started = time.perf_counter()
    await house.parts.engine.build(asked, Options(fresh=True))
    return (time.perf_counter() - started) * 1000
