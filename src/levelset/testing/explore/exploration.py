"""The definition of an exploration: the scenario, the controllers under test and the invariants."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from levelset.client.object_types import Kind
from levelset.errors import ConfigError
from levelset.runtime.controller.controller import Controller
from levelset.runtime.webhook.webhook_set import NestedWebhooks, Webhooks
from levelset.testing.cluster import Cluster
from levelset.testing.explore.judging.invariants import Invariant, Statement, statement_of
from levelset.testing.explore.outside_world import OutsideErrors
from levelset.testing.explore.records.run_result import RULES
from levelset.testing.reconcile_failures import AllowedErrors, check_allowed

__all__ = ["Controllers", "Exploration", "Invariant", "Scenario", "name_of"]

Scenario = Callable[[Cluster], Awaitable[object]] | Callable[[Cluster, Any], Awaitable[object]]
"""What the users do, with a cluster as their client, and with the `outside` if it takes a second parameter."""
Controllers = Callable[..., Sequence[Controller[Any]]] | Sequence[Controller[Any]]
"""Creates the controllers of one process (called with the `outside`, if there is one); or stateless controllers."""


@dataclass(frozen=True)
class Exploration:
    """One scenario with its controllers.

    - `scenario` is what users do, as an async function of a cluster; with a second parameter, also of the `outside`, in
      which it does what happens there by itself. Its calls there are not disturbed.
    - `controllers` is called for each process, and again after each crash, which loses their memory.
    - `invariants` are functions of a State that raise, by `assert`, where it must not be; they hold always, unless
      `eventually` or `finally_` says otherwise.
    - `expected_errors` are errors with which reconciles may fail undisturbed: a class, a tuple of classes, or True.
    - `allowed` are rules of `RULES` that are not applied, by name, or by name and kind: `created twice: ConfigMap`.
    - `outside` creates the world outside of the API (a cloud, for example) once for each run; it survives crashes, is
      passed to `controllers`, and invariants read it as `state.outside`. The calls of reconciles to its public methods
      are steps, which are disturbed as writes are, and its public state is compared at the end.
    - `outside_errors` are the exceptions of calls to the outside that fail: classes or instances, ConnectionError by
      default. Without any, calls neither fail nor lose their responses: there is no network in between.
    - `leader` runs two processes with leader election.
    - `shards` runs so many processes that share the objects: no two may be at one object (rule `two actors`).
    - `webhooks` are called by the server for the writes of every client, also while a process is down: as with other
      replicas, or with a failure policy of Fail. Those with the policy Ignore are skipped in outages of webhooks.
    - `kinds` are served in addition to those of the controllers and the webhooks.
    - `ignored` are kinds, or fields of kinds (`Website.status.attempts`), that are not compared at the end, or
      attributes of the outside (`outside.calls`). Events and Leases are never compared, nor are times, uids, versions,
      generated names, and fields that differ between undisturbed runs.
    - `within` is how many virtual seconds after the last disturbance the end state may take to be reached.
    - `follow` is how many virtual seconds the undisturbed run is followed after the scenario, as long as something is
      due: what happens in that time, such as a TTL, must happen in disturbed runs too.
    - `stale_restarts` allows plans in which a new process first sees an older state. The caches of levelset start with
      the newest, so turn this off for controllers that rely on it, such as those that count objects with generated
      names.
    - `name` is shown in reports; the name of the scenario function by default.
    """

    scenario: Scenario
    controllers: Controllers
    invariants: Sequence[Invariant | Statement] = ()
    outside: Callable[[], Any] | None = None
    outside_errors: OutsideErrors = (ConnectionError,)
    leader: bool = False
    shards: int = 0
    webhooks: Webhooks | NestedWebhooks = ()
    kinds: Sequence[Kind[Any]] = ()
    ignored: Sequence[str] = ()
    within: float = 600.0
    follow: float = 86400.0
    stale_restarts: bool = True
    allowed: Sequence[str] = ()
    expected_errors: AllowedErrors = False
    name: str = ""

    def __post_init__(self) -> None:
        """Raises ConfigError for functions that are not callable and for values that are not webhooks."""
        given: list[Any] = [self.scenario, *self.invariants]
        for one in given:
            if not callable(one):
                raise ConfigError(f"{one!r} cannot be called; give functions: the scenario, and a list of invariants")
        if self.outside is None and _takes_outside(self.scenario):
            name = getattr(self.scenario, "__name__", "scenario")
            raise ConfigError(f"{name} takes a second parameter, the outside; give outside=, which makes it")
        self._check_allowed()
        check_allowed(self.expected_errors, "expected_errors")
        Webhooks(self.webhooks)

    def _check_allowed(self) -> None:
        if isinstance(self.allowed, str):
            raise ConfigError(f"allowed={self.allowed!r} is a text; give a list: allowed=[{self.allowed!r}]")
        known = [*RULES, *(statement_of(one).name for one in self.invariants)]
        for one in self.allowed:
            if one.partition(":")[0].strip() not in known:
                raise ConfigError(
                    f"allowed: {one!r} is no rule; give a rule, or a rule and a kind as in 'created twice: ConfigMap'. "
                    f"The rules are: {', '.join(known)}"
                )

    def make_outside(self) -> Any:
        """The world outside of the API for one run."""
        return None if self.outside is None else self.outside()

    def begin_scenario(self, people: Cluster, outside: Any) -> Any:
        """The scenario, called."""
        scenario: Callable[..., Any] = self.scenario
        return scenario(people, outside) if _takes_outside(scenario) else scenario(people)

    def make_controllers(self, outside: Any) -> Sequence[Controller[Any]]:
        """The controllers of a new process; ConfigError if they are not Controllers."""
        found: Any = self.controllers
        if callable(found):
            found = found() if self.outside is None else found(outside)
        made: list[Any] = [found] if isinstance(found, Controller) else list(found)
        for one in made:
            if not isinstance(one, Controller):
                raise ConfigError(f"controllers must return Controllers, not {one!r}; write `lambda: [make()]`")
        return made


def _takes_outside(scenario: Callable[..., Any]) -> bool:
    """Whether a scenario has a second parameter that must be given."""
    parameters = list(inspect.signature(scenario).parameters.values())
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return len([one for one in positional if one.default is one.empty]) > 1


def name_of(one: Exploration) -> str:
    """The name of an exploration, or that of its scenario function."""
    return one.name or getattr(one.scenario, "__name__", "scenario")
