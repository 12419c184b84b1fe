"""What the benchmarks found: a table for people, `.context-engine/bench.json` for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

from rich.console import Console
from rich.table import Table

BENCH_JSON = Path(".context-engine/bench.json")


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on the ratio to the baseline or, without a baseline, on the value itself."""

    sense: Literal[">=", "<="]
    bound: float

    def holds(self, figure: float) -> bool:
        return figure >= self.bound if self.sense == ">=" else figure <= self.bound


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure. `baseline` is the same figure of what it is measured against, in `unit` too."""

    name: str
    value: float
    unit: str
    baseline: float | None = None
    baseline_name: str = "baseline"
    goal: Goal | None = None
    ratios: tuple[float, ...] = ()
    """The ratio of each round, where worker and baseline took turns."""

    @property
    def ratio(self) -> float | None:
        """To the baseline: the median of the rounds, which the machine's drift leaves alone."""
        if self.ratios:
            return median(self.ratios)
        return self.value / self.baseline if self.baseline else None

    @property
    def holds(self) -> bool | None:
        """Whether the goal is met; None where there is no goal."""
        if self.goal is None:
            return None
        return self.goal.holds(self.value if self.ratio is None else self.ratio)

    @property
    def goal_text(self) -> str | None:
        if self.goal is None:
            return None
        against = self.unit if self.baseline is None else f"x {self.baseline_name}"
        return f"{self.goal.sense} {self.goal.bound:g} {against}"

    def as_json(self) -> dict[str, str | float | bool | None]:
        return {
            "name": self.name,
            "value": round(self.value, 4),
            "unit": self.unit,
            "baseline": None if self.baseline is None else round(self.baseline, 4),
            "ratio": None if self.ratio is None else round(self.ratio, 4),
            "goal": self.goal_text,
            "holds": self.holds,
        }


def write(measures: Iterable[Measure], path: Path = BENCH_JSON) -> None:
    """Write the measures as a JSON list, replacing those of the last run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([each.as_json() for each in measures], indent=2) + "\n")


def table(measures: Sequence[Measure]) -> Table:
    """The measures side by side with what they are measured against."""
    shown = Table(title="Benchmarks", title_justify="left")
    shown.add_column("measure", overflow="fold")
    for column in ("value", "baseline", "ratio"):
        shown.add_column(column, justify="right")
    shown.add_column("goal")
    shown.add_column("holds")
    for each in measures:
        shown.add_row(
            each.name,
            f"{_number(each.value)} {each.unit}",
            "" if each.baseline is None else _number(each.baseline),
            _ratio(each),
            each.goal_text or "",
            {True: "[green]yes[/]", False: "[red]no[/]", None: ""}[each.holds],
        )
    return shown


def show(measures: Sequence[Measure], console: Console | None = None) -> bool:
    """Print the table, write the JSON; whether every goal is met."""
    write(measures)
    (console or Console()).print(table(measures))
    return all(each.holds is not False for each in measures)


def _ratio(measure: Measure) -> str:
    if measure.ratio is None:
        return ""
    spread = f" ({min(measure.ratios):.2f}-{max(measure.ratios):.2f})" if measure.ratios else ""
    return f"{measure.ratio:.2f}{spread}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
