"""docs/metrics.md, from the families that are declared."""

from __future__ import annotations

from workers.metrics import FAMILIES, Family
from workers.metrics.families import ALL, WORKERS
from workers.reference import markdown
from workers.reference.markdown import code, table

HEAD = """
With `CONTEXT_HEALTH_PORT` every worker serves these at `/metrics`, in Prometheus's text format,
beside `/livez` and `/readyz`; `context-engine audit --port` serves its own. Labels are few and
bounded: never a tenant, a user, a session or a table. What has to be asked of another part (lag,
readiness, the outbox) is asked at each scrape and left out where that does not answer. Beside them
are `process_*`, as the Prometheus client has them. What to watch and what to do is in
[operations](operations.md).
"""


def page() -> str:
    rows = [
        (code(one.name), one.kind, ", ".join(map(code, one.labels)), _of(one), one.help)
        for one in FAMILIES
    ]
    return markdown.page("Metrics", HEAD, table(("metric", "kind", "labels", "of", "is"), rows))


def _of(family: Family) -> str:
    if family.of == ALL:
        return "all, `audit` too"
    return "all" if family.of == WORKERS else ", ".join(map(code, family.of))
