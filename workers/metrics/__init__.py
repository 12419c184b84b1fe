"""What a worker exports for Prometheus, at `/metrics` beside its health; docs/operations.md."""

from workers.metrics.exporter import CONTENT_TYPE, Metrics
from workers.metrics.families import FAMILIES, Family

__all__ = ["CONTENT_TYPE", "FAMILIES", "Family", "Metrics"]
