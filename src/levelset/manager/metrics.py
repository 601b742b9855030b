"""What the controllers of one manager do, in numbers: the names and labels of controller-runtime, and some of our own.

A dashboard or an alert that was made for controller-runtime works here. Counting costs little (it happens a hundred
thousand times a second); putting it into words happens when somebody scrapes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

from levelset.cache.stats import Stats
from levelset.client.calls import Hook, Tallied, Tally
from levelset.controller.actions import Outcome
from levelset.controller.history import Counts
from levelset.controller.requests import Reason
from levelset.manager.exposition import Family, Registry
from levelset.manager.families import cache_families, controller_families, master_family, request_family
from levelset.manager.numbers import MANY, Numbers
from levelset.objects.identity import Ref

__all__ = ["Metrics"]


class Metrics:
    """Counts what controllers do: an Observer, with a registry of its own that others may add to.

    An unexpected error, one that nobody raised on purpose (it is no LevelsetError), counts as a panic.
    """

    def __init__(self) -> None:
        self.registry = Registry()
        self._numbers: dict[str, Numbers] = {}
        self._requests: Tallied = defaultdict(int)
        self.registry.add(self._controllers)
        self.registry.add(lambda: [request_family(self._requests)])

    def add_controller(
        self,
        name: str,
        *,
        concurrency: int = 1,
        depth: Callable[[], int] | None = None,
        asked: Callable[[], int] | None = None,
        ages: Callable[[], list[float]] | None = None,
        settle: Callable[[], None] | None = None,
    ) -> None:
        """Shows this controller from now on, with zeros.

        When somebody looks, `depth` is asked how many requests wait, `asked` how many there were, and `ages` for how
        many seconds each look that is under way has gone on; what is not given is counted as it is told. `settle` has
        everything counted before.
        """
        numbers = self._of(name)
        numbers.concurrency, numbers.ask_depth = concurrency, depth
        numbers.ask_adds, numbers.ask_ages, numbers.settle = asked, ages, settle

    def counter(self, name: str) -> Counts:
        """What counts the looks of one controller, given some at a time; the rest is left to be asked for."""
        return self._of(name).count

    def remove_controller(self, name: str) -> None:
        """Shows it no longer."""
        self._numbers.pop(name, None)

    def add_cluster(self, name: str, stats: Callable[[], Iterable[Stats]]) -> Callable[[], None]:
        """Shows the watches of a cluster; what is returned ends that."""
        return self.registry.add(lambda: cache_families(name, stats()))

    def add_election(self, name: str, is_leader: Callable[[], bool]) -> None:
        """Shows whether this process leads."""
        self.registry.add(lambda: [master_family(name, is_leader=is_leader())])

    def count_hot_loop(self, name: str) -> None:
        """Counts one more object that a controller keeps reconciling because of its own writes."""
        self._of(name).hot_loops += 1

    def counting(self, host: str) -> Hook:
        """A wire hook that counts the requests of a client to `host`."""
        return Tally(self._requests, host)

    def queued(self, name: str, depth: int, /) -> None:
        """Counts a request that waits."""
        numbers = self._numbers.get(name) or self._of(name)
        numbers.adds += 1
        numbers.depth = depth

    def started(self, name: str, ref: Ref[Any], _: tuple[Reason, ...], /) -> None:
        """Notes when a request is taken up."""
        numbers = self._numbers.get(name) or self._of(name)
        # By identity: the same ref comes back in `finished`, and to hash it would take as long as all the rest.
        numbers.running[id(ref)] = perf_counter()

    def finished(self, name: str, ref: Ref[Any], outcome: Outcome[Any], _: float, /) -> None:
        """Keeps what came of it, to be counted together with others."""
        numbers = self._numbers.get(name) or self._of(name)
        numbers.running.pop(id(ref), None)
        ended = numbers.ended
        ended.append(outcome)
        if len(ended) >= MANY:
            numbers.take_in()

    def _controllers(self) -> Iterable[Family]:
        for numbers in list(self._numbers.values()):
            numbers.take_in()
        return controller_families(self._numbers, perf_counter())

    def _of(self, name: str) -> Numbers:
        return self._numbers.setdefault(name, Numbers())
