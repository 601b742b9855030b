"""How a cache is doing, in numbers: what a dashboard or a metrics endpoint shows of each informer."""

from dataclasses import dataclass

__all__ = ["Stats"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """One informer at one moment.

    `lag` is the seconds since the server last sent something, be it a bookmark; servers send one about every minute.
    `waiting` is how many changes the slowest subscriber has yet to read. Counters count since the informer was opened.
    """

    name: str
    is_ready: bool
    objects: int
    bytes: int
    resource_version: str | None
    lag: float | None
    events: int
    relists: int
    reconnects: int
    bookmarks: int
    errors: int
    readers: int
    waiting: int
    trouble: str | None
