"""What is to be explored: what people do, the controllers that should cope with it, and what must always hold."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from levelset.client.object_types import Kind
from levelset.errors import ConfigError
from levelset.runtime.controller.controller import Controller
from levelset.runtime.webhook.webhook_set import Several, Webhooks
from levelset.testing.cluster import Cluster
from levelset.testing.explore.stored_state import State

__all__ = ["Controllers", "Exploration", "Invariant", "Scenario", "name_of"]

Scenario = Callable[[Cluster], Awaitable[object]]
"""What people do, with the cluster as they know it."""
Controllers = Callable[..., Sequence[Controller[Any]]] | Sequence[Controller[Any]]
"""Makes the controllers of one process (given what is outside, if anything is); or controllers without memory."""
Invariant = Callable[[State], object]
"""Is called at every revision; raises AssertionError, or returns False, if something is wrong."""


@dataclass(frozen=True)
class Exploration:
    """One scenario with its controllers, ready to be played.

    - `controllers` is called for each process, and again after each crash: what they remember is lost then.
    - `outside` makes what is outside of the API (a cloud, say) once for each run; it survives crashes, is given to
      `controllers`, and invariants see it as `state.outside`.
    - `leader` runs two processes, of which one leads.
    - `webhooks` are asked by the server before every write, whoever writes, and also while processes are away: as those
      of a cluster with other replicas, or that refuses what nobody can be asked about.
    - `kinds` are served besides those that the controllers and the webhooks name.
    - `ignored` are kinds that do not matter in the end, or fields of theirs: `Website.status.attempts`. Events and
      Leases never matter, nor do times, uids, versions, made-up names, and what differs between undisturbed runs.
    - `within` is how many virtual seconds after everything it may take until all is as in the undisturbed run.
    - `older` plans have a new process see an older state first. The caches of levelset begin with the newest, so turn
      this off for controllers that rely on it, such as those that count objects whose names the server makes up.
    """

    scenario: Scenario
    controllers: Controllers
    invariants: Sequence[Invariant] = ()
    outside: Callable[[], Any] | None = None
    leader: bool = False
    webhooks: Webhooks | Several = ()
    kinds: Sequence[Kind[Any]] = ()
    ignored: Sequence[str] = ()
    within: float = 600.0
    older: bool = True
    name: str = ""

    def __post_init__(self) -> None:
        """Refuses what cannot be called, and what is no webhook."""
        for one in (self.scenario, *self.invariants):
            if not callable(one):
                raise ConfigError(f"{one!r} cannot be called; give functions: the scenario, and a list of invariants")
        Webhooks(self.webhooks)

    def make_outside(self) -> Any:
        """What is outside of the API in one run."""
        return None if self.outside is None else self.outside()

    def make_controllers(self, outside: Any) -> Sequence[Controller[Any]]:
        """The controllers of a new process; ConfigError if they are none."""
        found: Any = self.controllers
        if callable(found):
            found = found() if self.outside is None else found(outside)
        made: list[Any] = [found] if isinstance(found, Controller) else list(found)
        for one in made:
            if not isinstance(one, Controller):
                raise ConfigError(f"controllers must give Controllers, not {one!r}; write `lambda: [make()]`")
        return made


def name_of(one: Exploration) -> str:
    """What people call an exploration: its name, or that of its scenario."""
    return one.name or getattr(one.scenario, "__name__", "scenario")
