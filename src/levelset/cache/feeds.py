"""Those who hear of every change in an informer: what they have in common."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Sequence
from typing import Any, Generic, Self, TypeVar

from levelset.cache.changes import Change
from levelset.cache.conflating import Replay
from levelset.cache.readiness import Readiness
from levelset.client.kinds import View
from levelset.objects.kept import Kept

__all__ = ["Feed", "Joining"]

K = TypeVar("K")


class Joining(Generic[K]):
    """What a reader is given when he comes: the objects that are there, and since which write he is told of changes."""

    __slots__ = ("_kept", "detach", "is_complete", "step", "view", "what", "with_replay")

    def __init__(
        self,
        view: View[K],
        kept: Callable[[], dict[str, Kept]],
        *,
        step: int,
        is_complete: bool,
        with_replay: bool,
        what: str,
        detach: Callable[[Any], None],
    ) -> None:
        self.view = view
        self.step = step
        self.is_complete = is_complete
        self.with_replay = with_replay
        self.what = what
        self.detach = detach
        self._kept = kept

    def replay(self, *, is_resync: bool = False, without: Container[str] | None = None) -> Replay[K]:
        """The objects that are there now."""
        return Replay(self._kept(), self.view, is_resync=is_resync, without=without)


class Feed(ABC, Generic[K]):
    """One reader of an informer: is shown what is there, then told what changes, each in its turn and without a gap.

    `wait_synced` waits until this reader, and not just the informer, has seen what was there.
    """

    def __init__(self, joining: Joining[K]) -> None:
        self._joining = joining
        self._synced = Readiness(joining.what)
        self._has_all = joining.is_complete  # of the initial objects, be they in the replay or told as changes
        self._replay: Replay[K] | None = joining.replay() if joining.with_replay else None
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """Whether nothing more comes."""
        return self._closed

    @property
    def is_synced(self) -> bool:
        """Whether this reader has seen all that was there when he came."""
        return self._synced.is_ready

    async def wait_synced(self, within: float | None = None) -> None:
        """Returns once this reader has seen all that was there; NotReady if that takes longer or never happens."""
        await self._synced.wait(within)

    def offer(self, changes: Sequence[Change[Any]], step: int) -> None:
        """Tells the reader what a write has changed, unless he came after it."""
        if step <= self._joining.step or not changes:
            return
        view, replay = self._joining.view, self._replay
        if changes[0].view is not view:
            changes = [change.seen_as(view) for change in changes]
        if replay is not None:
            changes = [change for change in changes if not replay.absorb(change)]
        if changes:
            self._take(changes)

    def complete(self) -> None:
        """Says that all initial objects have been told."""
        self._has_all = True
        self._check()

    def resync(self) -> None:
        """Shows this reader, and no other, every object again, as changes with `is_resync`.

        Objects of which he has yet to see a change are left out: they will be shown anyway.
        """
        if self._replay is None and not self._closed:
            self._replay = self._joining.replay(is_resync=True, without=self._waiting())
            self._wake()

    def close(self) -> None:
        """Ends it: nothing more comes, and what has not been read is dropped. A second time does nothing."""
        if not self._closed:
            self._closed = True
            self._replay = None
            self._joining.detach(self)
            self._synced.close()
            self._wake()

    async def aclose(self) -> None:
        """Closes it: what a Stream that reads from it calls when it is closed."""
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def end(self) -> None:
        """Says that the informer has ended; what the reader has yet to see can still be read."""
        self.close()

    @abstractmethod
    def _take(self, changes: Sequence[Change[K]]) -> None: ...

    @abstractmethod
    def _wake(self) -> None: ...

    def _waiting(self) -> Container[str] | None:
        """The keys of which the reader has yet to see a change."""
        return None

    @abstractmethod
    def _is_drained(self) -> bool: ...

    def _check(self) -> None:
        if self._has_all and not self._synced.is_ready and self._is_drained():
            self._synced.settle()
