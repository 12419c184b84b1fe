"""Dashboard, alarms and their page speak of what the workers export, by its names and labels."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, get_args

import promql_parser as promql
import pytest
import yaml

from context_engine.looking import Past
from context_engine.models.context import Source
from tests.support.documents import ROOT
from workers.build_handler import Fault
from workers.metrics import FAMILIES, Family, Metrics
from workers.metrics.families import ALL
from workers.reference.errors import codes

pytestmark = pytest.mark.unit

RULES = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())
SCRAPED = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
DASHBOARD = json.loads((ROOT / "deploy/grafana/dashboard.json").read_text())
PAGE = (ROOT / "docs/operations.md").read_text()

ALARMS: list[dict[str, Any]] = [one for group in RULES["groups"] for one in group["rules"]]
PANELS: list[dict[str, Any]] = [one for one in DASHBOARD["panels"] if one["type"] != "row"]
EXPRESSIONS = [one["expr"] for one in ALARMS] + [
    target["expr"].replace("$__rate_interval", "5m") for one in PANELS for target in one["targets"]
]
TARGET = {"instance", "job"}
"""Labels that Prometheus gives whatever it scrapes."""

VALUES = {
    "outcome": {*codes(), *get_args(Source), Fault.code, "unanswered"},
    "layer": {"whole", "surface", "session"},
    "result": {"hit", "miss", "same", "explained", "unexplained", "skipped"},
    "worker": set(ALL),
    "check": {"worker", "partitions", "redis", "database", "broker", "liveness"},
    "reason": {one for union in get_args(Past) for one in get_args(union)},
    "job": {one["job_name"] for one in SCRAPED["scrape_configs"]},
}


def visited(expression: str) -> Iterator[promql.Expr]:
    """Every node of it. Raises where it is no PromQL."""
    found: list[promql.Expr] = []
    promql.walk(promql.parse(expression), lambda node: found.append(node))
    return iter(found)


def selectors(node: promql.Expr) -> list[promql.VectorSelector]:
    found: list[promql.VectorSelector] = []

    def visit(one: promql.Expr) -> None:
        if isinstance(one, promql.VectorSelector):
            found.append(one)

    promql.walk(node, visit)
    return found


def series() -> dict[str, Family]:
    """What Prometheus keeps, by its name."""
    found: dict[str, Family] = {}
    for one in FAMILIES:
        ends = ("_bucket", "_sum", "_count") if one.kind == "histogram" else ("",)
        found |= {one.name + end: one for end in ends}
    return found


SERIES = series()


def labels_of(name: str) -> set[str]:
    labels = set(SERIES[name].labels) if name in SERIES else set()
    return labels | TARGET | ({"le"} if name.endswith("_bucket") else set())


@pytest.fixture(scope="module")
async def of_the_process() -> set[str]:
    """Series that the client exports of every process."""
    text = (await Metrics("build").text()).decode()
    return {"up", *re.findall(r"^(process_\w+) ", text, re.MULTILINE)}


@pytest.mark.parametrize("expression", EXPRESSIONS)
async def test_each_metric_is_one_that_a_worker_exports(
    expression: str, of_the_process: set[str]
) -> None:
    """By its name; with labels that it has, of values that they take."""
    found = selectors(promql.parse(expression))
    assert found
    for one in found:
        assert one.name in SERIES.keys() | of_the_process
        for matcher in one.matchers.matchers:
            assert matcher.name in labels_of(one.name)
            assert set(matcher.value.split("|")) <= VALUES[matcher.name]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_what_is_summed_up_by_is_a_label_of_it(expression: str) -> None:
    """Else all of it would be one; and a histogram is asked with `le`."""
    for node in visited(expression):
        if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
            inside = [labels_of(one.name) for one in selectors(node)]
            assert set(node.modifier.labels) <= set.union(*inside)
            assert all("le" not in labels for labels in inside) or "le" in node.modifier.labels


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_counter_is_never_shown_as_it_stands(expression: str) -> None:
    """It begins anew with each process: only its rate or increase says something."""
    counters = {name for name, one in SERIES.items() if one.kind != "gauge"}
    ranges = [n for n in visited(expression) if isinstance(n, promql.MatrixSelector)]
    ranged = sorted(one.vector_selector.name for one in ranges)
    assert ranged == sorted(
        one.name for one in selectors(promql.parse(expression)) if one.name in counters
    )


def test_everything_that_is_exported_is_shown() -> None:
    """On the dashboard, by one of its series."""
    shown = {one.name for target in EXPRESSIONS for one in selectors(promql.parse(target))}
    hidden = [one.name for one in FAMILIES if not any(name.startswith(one.name) for name in shown)]
    assert hidden == []


def test_each_alarm_has_its_place_in_operations() -> None:
    """In the order of the file, with what it means and what to do; and a link that leads there."""
    names = [one["alert"] for one in ALARMS]
    sections = re.split(r"^### ", PAGE.partition("\n## Alarms\n")[2], flags=re.MULTILINE)[1:]
    assert [one.split("\n", 1)[0] for one in sections] == names
    assert len(set(names)) == len(names) > 10
    for alarm, section in zip(ALARMS, sections, strict=True):
        assert len(section.split()) > 25, alarm["alert"]
        assert alarm["annotations"]["runbook"] == f"docs/operations.md#{alarm['alert'].lower()}"
        assert alarm["annotations"]["summary"]
        assert alarm["labels"]["severity"] in ("critical", "warning", "info")


def test_a_label_in_the_words_of_an_alarm_is_there_when_it_fires() -> None:
    """Of what its expression keeps: the labels that it sums up by, or those it selects."""
    for alarm in ALARMS:
        used = set(re.findall(r"\$labels\.(\w+)", alarm["annotations"]["summary"]))
        kept = set(re.findall(r"by \(([\w, ]+)\)", alarm["expr"])) or {"instance, job"}
        kept = {label for one in kept for label in one.split(", ")}
        kept |= set(re.findall(r'[{,](\w+)="', alarm["expr"]))
        assert used <= kept, alarm["alert"]


def test_the_dashboard_can_be_loaded() -> None:
    """Panels have ids and places of their own, a source that the reader chooses, and a unit."""
    ids = [one["id"] for one in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    places = [(one["gridPos"]["x"], one["gridPos"]["y"]) for one in DASHBOARD["panels"]]
    assert len(set(places)) == len(places)
    (variable,) = DASHBOARD["templating"]["list"]
    for panel in PANELS:
        assert panel["datasource"]["uid"] == f"${{{variable['name']}}}"
        assert panel["description"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        for target in panel["targets"]:
            legend = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            expression = target["expr"].replace("$__rate_interval", "5m")
            inside = [labels_of(one.name) for one in selectors(promql.parse(expression))]
            assert legend <= set.union(*inside)
