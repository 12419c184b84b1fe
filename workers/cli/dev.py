"""`dev` and `demo`: the whole house on this machine."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from context_engine.settings import DEV_ENV
from workers.cli.shared import Exit, JsonFlag, console, run, stderr


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
    raise typer.Exit(run(_dev(kafka)))


async def _dev(kafka: str) -> int:
    from workers.house import house, write_env
    from workers.supervisor import first_exit

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    logs = DEV_ENV.parent / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    try:
        async with house(say=_say, logs=logs, kafka=kafka) as up:
            write_env(DEV_ENV, up.env)
            for name in sorted(up.env):
                if not name.endswith("SECRET"):
                    console.print(f"{name}={_masked(up.env[name])}", markup=False, highlight=False)
            console.print(f"\nReady. Addresses are in {DEV_ENV}, logs in {logs}. Try:")
            console.print(TRY, markup=False, highlight=False)
            ended = asyncio.create_task(first_exit(up.workers))
            stopped = asyncio.create_task(stop.wait())
            await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if ended.done():
                name, code = ended.result()
                stderr.print(f"the {name} worker ended with exit code {code}; see {logs}")
                return code or Exit.FAILED
            ended.cancel()
    finally:
        DEV_ENV.unlink(missing_ok=True)
    return Exit.OK


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
    console.print(text, style="dim", markup=False, highlight=False)


def demo(as_json: JsonFlag = False) -> None:
    """Shows the product at work on this machine, from nothing to a revoked right, and cleans up.

    Exits 0 only if every step showed what it should.

    Example: context-engine demo
    """
    from workers.demo import run_demo

    with tempfile.TemporaryDirectory(prefix="context-engine-demo-") as home:
        raise typer.Exit(run(run_demo(Path(home), as_json=as_json)))
