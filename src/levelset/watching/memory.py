"""Remembers what was last seen of each object, so that what has not changed need not be looked at again."""

from typing import Any

from levelset.client.kinds import Item
from levelset.errors import ConfigError
from levelset.watching.predicates import Predicate

__all__ = ["Memory"]

_Key = tuple[object, str | None, str, str]


class Memory:
    """Judges changes by a predicate against the last trace of the same object.

    An object is the same if kind, namespace, name and uid are: one that was deleted and made again is another. What was
    not seen for `limit` seconds is forgotten, so that objects whose end nobody told do not stay for ever. A watch that
    begins again changes nothing: a list of what is known already passes nothing.
    """

    def __init__(self, predicate: Predicate, limit: float) -> None:
        if not limit > 0:
            raise ConfigError(f"memory={limit!r}: objects must be remembered for a positive number of seconds")
        self._predicate = predicate
        self._limit = limit
        self._seen: dict[_Key, tuple[Any, float]] = {}
        self._swept: float | None = None

    def __len__(self) -> int:
        return len(self._seen)

    def passes(self, item: Item[Any], now: float) -> bool:
        """Whether this state of the object matters; it is remembered either way."""
        self._sweep(now)
        key = _key(item)
        found = self._seen.get(key)
        trace = self._predicate.trace(item)
        before = None if found is None or now - found[1] >= self._limit else found[0]
        self._seen[key] = trace, now
        return self._predicate.differs(before, trace)

    def forget(self, item: Item[Any]) -> None:
        """The object is gone."""
        self._seen.pop(_key(item), None)

    def _sweep(self, now: float) -> None:
        if self._swept is None:
            self._swept = now
        if now - self._swept < self._limit:
            return
        self._swept = now
        self._seen = {key: found for key, found in self._seen.items() if now - found[1] < self._limit}


def _key(item: Item[Any]) -> _Key:
    head = item.kept
    return item.view.gvk, head.namespace, head.name, head.uid
