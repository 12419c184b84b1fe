"""A worker's `/metrics`, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import aiohttp
from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True)
class Scraped:
    """One scrape. A family is named as it is declared: a counter with `_total`."""

    text: str
    kinds: dict[str, str]
    samples: tuple[tuple[str, dict[str, str], float], ...]

    @classmethod
    def of(cls, text: str) -> Scraped:
        found = list(text_string_to_metric_families(text))
        ending = {"counter": "_total"}
        kinds = {one.name + ending.get(one.type, ""): one.type for one in found if one.samples}
        samples = [(s.name, s.labels, s.value) for one in found for s in one.samples]
        return cls(text, kinds, tuple(samples))

    def value(self, name: str, **labels: str) -> float:
        """The sum over every sample with these labels; 0 without one."""
        return sum(self._values(name, labels))

    def has(self, name: str, **labels: str) -> bool:
        return any(True for _ in self._values(name, labels))

    def _values(self, name: str, labels: dict[str, str]) -> Iterator[float]:
        for found, given, value in self.samples:
            if found == name and labels.items() <= given.items():
                yield value


async def scrape(port: int) -> Scraped:
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"http://127.0.0.1:{port}/metrics") as answer,
    ):
        assert answer.status == 200
        assert answer.content_type == "text/plain"
        return Scraped.of(await answer.text())
