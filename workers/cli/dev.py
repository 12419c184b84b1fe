"""`dev` and `demo`: the whole house on this machine."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from context_engine.settings import DEV_ENV
from workers.cli.program import typed
from workers.cli.shared import Exit, JsonFlag, console, run, stderr, warn_unknown
from workers.cli.terminal import PLAIN
from workers.ending import cut_short

if TYPE_CHECKING:
    from workers.house import House


def dev(
    kafka: Annotated[
        str, typer.Option(help="small, maven (Apache Kafka, needs Java and Maven) or host:port.")
    ] = "small",
) -> None:
    """Starts stack and workers in the foreground until Ctrl-C, with a workspace to play in.

    The addresses are printed and written to .context-engine/dev.env, where the other commands
    find them.

    Example: context-engine dev
    """
    warn_unknown()
    raise typer.Exit(run(cut_short(_dev(kafka), told=Exit.OK)))


async def _dev(kafka: str) -> int:
    from workers.localstack.sole import sole

    with sole(DEV_ENV.with_name("dev.lock")):
        try:
            return await _until_one_ends(kafka)
        finally:
            DEV_ENV.unlink(missing_ok=True)  # ours, or that of one that was killed


async def _until_one_ends(kafka: str) -> int:
    """Runs the house until it is cancelled; should a process of it end, says so and fails."""
    from workers.house import house, write_env
    from workers.supervisor import first_exit

    logs = DEV_ENV.parent / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    async with house(say=_say, logs=logs, kafka=kafka) as up:
        write_env(DEV_ENV, up.env)
        for name in sorted(up.env):
            if not name.endswith("SECRET"):
                console.print(f"{name}={_masked(up.env[name])}", **PLAIN)
        console.print(
            f"\nReady. Addresses are in {DEV_ENV}, logs in {logs}. In this folder, try:",
            markup=False, highlight=False, soft_wrap=True,
        )  # fmt: skip
        console.print(typed(TRY), markup=False, highlight=False, soft_wrap=True)
        name, code = await first_exit((*up.workers.values(), *up.parts))
        if name not in up.workers:
            await _abandon(up, name, logs)
        stderr.print(
            f"{name} ended with code {code}; see {logs / name}.log. Stopping the rest",
            markup=False, highlight=False, soft_wrap=True,
        )  # fmt: skip
        return code if code > 0 else Exit.FAILED


async def _abandon(up: House, lost: str, logs: Path) -> None:
    """Keeps the log of the part that was lost, and ends workers that cannot leave in order now.

    Nothing is lost by it: a worker that was killed is one of the things that this house bears.
    """
    for part in up.parts:
        if part.name == lost:  # its own folder goes away with the stack
            shutil.copyfile(part.log_path, logs / f"{lost}.log")
    await asyncio.gather(*(worker.kill() for worker in up.workers.values()))


TRY = """
  context-engine build --user usr-ana --workspace ws-delivery --table tbl-tasks
  context-engine watch
  context-engine domain --help
"""


def _masked(address: str) -> str:
    """An address without its password."""
    head, at, tail = address.rpartition("@")
    scheme, slashes, credentials = head.partition("://")
    if not at:
        return address
    return f"{scheme}{slashes}{credentials.partition(':')[0]}:***@{tail}"


def _say(text: str) -> None:
    console.print(text, style="dim", **PLAIN)


def demo(as_json: JsonFlag = False) -> None:
    """Shows the product at work on this machine, from nothing to a revoked right, and cleans up.

    Exits 0 only if every step showed what it should.

    Example: context-engine demo
    """
    from workers.demo import run_demo

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, until it is up
    with tempfile.TemporaryDirectory(prefix="context-engine-demo-") as home:
        demonstration = run_demo(Path(home), as_json=as_json)
        raise typer.Exit(run(cut_short(demonstration, told=Exit.INTERRUPTED)))
