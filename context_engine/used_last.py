"""What was used last, kept up to a bound of weight."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

V = TypeVar("V")


class UsedLast(Generic[V]):
    """Values by key, each with a weight: those used last, as far as the bound allows."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[V, int]] = OrderedDict()
        self._weight = 0
        self._lock = Lock()  # for whoever runs an engine in each of several threads

    def get(self, key: str) -> V | None:
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return None
            self._kept.move_to_end(key)
            return kept[0]

    def keep(self, key: str, value: V, weight: int, *, most: int) -> None:
        """In the place of what had this key. What then weighs more than `most` together loses
        what was not used for longest. What alone weighs more is not kept, and costs no other."""
        with self._lock:
            self._drop(key)
            if weight > most:
                return
            self._kept[key] = value, weight
            self._weight += weight
            while self._weight > most:
                self._drop(next(iter(self._kept)))

    def forget(self) -> None:
        with self._lock:
            self._kept.clear()
            self._weight = 0

    def _drop(self, key: str) -> None:
        if (gone := self._kept.pop(key, None)) is not None:
            self._weight -= gone[1]
