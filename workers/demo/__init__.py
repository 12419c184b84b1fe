"""`context-engine demo`: the product at work on this machine, from nothing, then cleaned up."""

from __future__ import annotations

from pathlib import Path

__all__ = ["run_demo"]


async def run_demo(home: Path, *, as_json: bool) -> int:
    """Runs every step on a stack of its own in `home`; 0 only if each showed what it should."""
    from workers.demo.run import run

    return await run(home, as_json=as_json)
