"""The fault suite. Without `FAULTS` its short versions run, one file of them, in `make test`;
`FAULTS=all`, or parts of tests' names separated by commas, runs them in the long form."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.faults import report
from tests.faults.run import CHOSEN, REPORT
from tests.faults.scene import Scene, scene_over
from tests.support.stack import Databases, kafka_choice
from workers.localstack import LocalStack

LONG = bool(CHOSEN)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without `FAULTS` only what is marked `short` is left; else what it names."""
    ours = [item for item in items if item.path.parent.name == "faults"]
    left_out = {item for item in ours if not _wanted(item)}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def _wanted(item: pytest.Item) -> bool:
    if not LONG:
        return item.get_closest_marker("short") is not None
    return "all" in CHOSEN or any(one in item.nodeid for one in CHOSEN)


def pytest_terminal_summary() -> None:
    if LONG and REPORT:
        report.show(REPORT, f"the broker {kafka_choice()!r}")


@pytest.fixture(scope="module")
async def _scene(
    stack: LocalStack, databases: Databases, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Scene]:
    async with scene_over(stack, databases, tmp_path_factory.mktemp("faults")) as made:
        yield made


@pytest.fixture
async def scene(_scene: Scene) -> Scene:
    """Two build workers, a consumer and a relay, live, whatever the last test left of them."""
    await _scene.whole()
    return _scene


@pytest.fixture
def long() -> bool:
    """Whether the long form runs."""
    return LONG
