"""A pytest plugin for mutation testing: a session begins without what earlier ones computed.

Mutants run in forks of a process that has run the same tests before; what it then kept would
answer in place of the code that is to be tried.
"""

from __future__ import annotations

import functools
import sys

import hypothesis
import pytest

SLOW = ("test_garbage_is_refused_or_unresolvable_and_nothing_else", "[200000-", "[5000-")
"""Parts of the names of tests that take seconds, and find what others find."""

hypothesis.settings.register_profile(
    "mutants",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=30,
    suppress_health_check=list(hypothesis.HealthCheck),
)


def pytest_sessionstart() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("context_engine."):
            for one in vars(module).values():
                if isinstance(one, functools._lru_cache_wrapper):
                    one.cache_clear()


def pytest_runtest_setup() -> None:
    """Each test decides for itself: what an earlier one decided on equal facts is no test of it."""
    if (kept := sys.modules.get("context_engine.access.kept")) is not None:
        kept.DECISIONS.forget()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """mutmut knows tests by a name that pytest no longer keeps."""
    slow = [item for item in items if any(part in item.nodeid for part in SLOW)]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in slow]
    for item in items:
        item._nodeid = item.nodeid  # type: ignore[attr-defined]
