"""The snippets and commands of the documentation, run against the real house with its workspace."""

from __future__ import annotations

import asyncio
import contextlib
import io
import runpy
from pathlib import Path

import pytest
import typer

from context_engine.bootstrap import Parts
from context_engine.errors import Conflict
from events.client import ContextClient
from tests.support.documents import (
    DOCUMENTS,
    ROOT,
    Block,
    CommandLine,
    command_lines,
    programs,
)
from workers.cli.main import app
from workers.seed import Seeded, seed

pytestmark = pytest.mark.any_broker

RUN = {
    "build",
    "emit",
    "topics",
    "migrate",
    "domain",
    "schema",
    "snapshot",
    "conversation",
    "explain",
}
"""Commands that end by themselves and need no more than a house. The rest has tests of its own."""

REFUSED = 65
"""Exit code of the commands that show a refusal: a comment says so."""


def runnable(page: str) -> list[CommandLine]:
    return [
        line
        for line in command_lines()
        if line.place.startswith(f"{page}:")
        and line.words[0] in RUN
        and not {"--help", "-"} & set(line.words)
    ]


PAGES = [page for one in DOCUMENTS if runnable(page := str(one.relative_to(ROOT)))]


@pytest.fixture(scope="module")
async def seeded(parts: Parts) -> Seeded:
    """The workspace that the documentation speaks of."""
    return await seed(parts.services)


@pytest.fixture
def here(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeded: Seeded
) -> Path:
    """A directory of its own, where the house is found by the environment."""
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("block", programs(), ids=lambda block: block.name)
async def test_a_program_runs(block: Block, here: Path, client: ContextClient) -> None:
    """As it stands, and prints what the page says."""
    script = here / "program.py"
    script.write_text(block.text)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        async with asyncio.timeout(40):
            await asyncio.to_thread(runpy.run_path, str(script), run_name="__main__")
    assert block.then is not None, "say what it prints, in a text block"
    assert out.getvalue().rstrip("\n") == block.then.rstrip("\n")


@pytest.mark.timeout(180)
@pytest.mark.parametrize("page", PAGES)
async def test_the_commands_of_a_page_run(
    page: str, here: Path, client: ContextClient, parts: Parts, seeded: Seeded
) -> None:
    """One after the other, as a reader would who has read no other page."""
    with contextlib.suppress(Conflict):
        await parts.services.members.add(
            seeded.admin_id, seeded.workspace_id, seeded.leaving_id, role="editor"
        )
    for line in runnable(page):
        code, out = await asyncio.to_thread(_run, line.words)
        expected = REFUSED if line.comment == "not_found" else 0
        assert code == expected, f"{line.name}: {out}"
        if line.into is not None:
            (here / line.into).write_text(out)


def _run(words: list[str]) -> tuple[int, str]:
    """Exit code and output; every wait in there has a bound of its own."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            code = app(words, standalone_mode=False)
        except typer.Exit as exit_:
            code = exit_.exit_code
    return code if isinstance(code, int) else 0, out.getvalue()
