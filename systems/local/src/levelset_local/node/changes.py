"""What may happen to a container while nobody looks, each as a change of what is known of its Pod.

They are made where a process ends or a probe turns, wait until the Pod is looked at next, and say nothing if another
run of the container has begun by then.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from levelset_local.node.known import ContainerKnown, End, Live, News, PodKnown
from levelset_machine import Identity

__all__ = ["Change", "ended", "failing", "news", "posted", "ready", "started"]

_MOST_NEWS: Final = 20

Change = Callable[[PodKnown], PodKnown | None]
"""From what is known to what is known then; None if nothing changes."""


def ended(name: str, identity: Identity, end: End) -> Change:
    """The process has ended."""

    def change(known: PodKnown) -> PodKnown | None:
        one = known.container(name)
        if one.live is None or one.live.identity != identity:
            return None
        return known.with_container(replace(one, live=None, ended=end))

    return change


def posted(name: str, identity: Identity) -> Change:
    """The hook after the start is through."""
    return _of_live(name, identity, lambda live: replace(live, is_posted=True))


def started(name: str, identity: Identity) -> Change:
    """The startup probe has succeeded."""
    return _of_live(name, identity, lambda live: replace(live, is_started=True))


def ready(name: str, identity: Identity, *, is_ready: bool) -> Change:
    """The container has become ready, or is no longer."""
    return _of_live(name, identity, lambda live: replace(live, is_ready=is_ready and not live.stopping))


def failing(name: str, identity: Identity, why: str, grace: int | None = None) -> Change:
    """The container has to be ended."""
    return _of_live(name, identity, lambda live: replace(live, failing=why, failing_grace=grace))


def news(reason: str, message: str) -> Change:
    """Something to tell as an Event when the Pod is looked at."""
    return lambda known: replace(known, news=(*known.news, News(reason=reason, message=message))[-_MOST_NEWS:])


def _of_live(name: str, identity: Identity, move: Callable[[Live], Live]) -> Change:
    def change(known: PodKnown) -> PodKnown | None:
        one: ContainerKnown = known.container(name)
        if one.live is None or one.live.identity != identity:
            return None
        return known.with_container(replace(one, live=move(one.live)))

    return change
