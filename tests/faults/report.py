"""The table of `make faults`, and the same as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.faults.run import Row

FILE = Path(".context-engine") / "faults.json"


def show(rows: Sequence[Row], broker: str) -> None:
    """Prints the rows and writes them to `FILE`."""
    load = max(row.load for row in rows)
    title = f"Faults on {broker}; {os.cpu_count()} cores, load up to {load:.0f}"
    table = Table(title=title, title_justify="left")
    table.add_column("fault", max_width=40)
    for name in ("sent", "answered", "refused", "dead", "lost", "twice"):
        table.add_column(name, justify="right")
    table.add_column("back after s", justify="right")
    table.add_column("verdict")
    for row in rows:
        counts = (row.sent, row.answered, row.refused, row.dead, row.lost, row.duplicates)
        back = "" if row.recovered is None else f"{row.recovered:.1f}"
        table.add_row(row.fault, *(f"{n:,}" for n in counts), back, "holds" if row.ok else "BROKEN")
    console = Console(width=120)
    console.print(table)
    for row in rows:
        for words in (*row.notes, *(f"BROKEN: {one}" for one in row.broken)):
            console.print(f"  {row.fault}: {words}", markup=False, highlight=False)
    FILE.parent.mkdir(exist_ok=True)
    found = {"broker": broker, "cores": os.cpu_count(), "rows": [row.json() for row in rows]}
    FILE.write_text(json.dumps(found, indent=2) + "\n")
