"""A system: controllers and what they need beside them, started together by `run` and `levelset up`.

```python
omnia = System(
    name="omnia",
    controllers=[agents, packs, registries],
    hints=["kubectl apply -f examples/omnia/"],
)
```

What has to be opened first, such as processes, comes from `around`:

```python
@asynccontextmanager
async def open_plane() -> AsyncGenerator[System]:
    async with Machine() as machine:
        plane = Plane(machine)
        yield System(name="local", controllers=plane.controllers, logs={Pod: plane.pod_logs})


local = System(name="local", around=open_plane, needs_own_server=True)
```
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from levelset.errors import ConfigError
from levelset.objects.resource import Object
from levelset.runtime.controller.controller import Controller
from levelset.runtime.manager.manager import Manager

if TYPE_CHECKING:
    from levelset.apiserver.verbs.subresources.pod_logs import LogSource

__all__ = ["Part", "System", "join", "open_parts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """Controllers that belong together, with all they bring along.

    `kinds` are those that no controller is for, and that a server of one's own should serve as well. `logs` says who
    answers the `log` subresource of a kind, and `service_addresses` where Services get their addresses from; both mean
    something to such a server only. `setup` is called with the manager before it starts. `around` is entered before
    anything else and left after everything; the system that it gives, if it gives one, is part of this one. `hints` are
    lines to type next, and `urls` what else is said at the start: what it serves, and where.
    """

    name: str
    controllers: Sequence[Controller[Any]] = ()
    webhooks: Sequence[Any] = ()
    kinds: Sequence[type[Object]] = ()
    logs: "Mapping[type[Object], LogSource]" = field(default_factory=dict[type[Object], "LogSource"])
    service_addresses: str | None = None
    setup: Callable[[Manager], object] | None = None
    around: "Callable[[], AbstractAsyncContextManager[System | None]] | None" = None
    hints: Sequence[str] = ()
    urls: Mapping[str, str] = field(default_factory=dict[str, str])
    needs_own_server: bool = False
    """Whether it plays a part of a cluster itself, and must not meet another that has it already."""


Part = Controller[Any] | System


def join(*systems: System) -> System:
    """One system that is all of these; ConfigError if they do not go together."""
    ranges = {one.name: one.service_addresses for one in systems if one.service_addresses}
    if len(set(ranges.values())) > 1:
        raise ConfigError(
            f"systems {', '.join(ranges)}: each wants other addresses for services; leave all but one out"
        )
    setups = [one.setup for one in systems if one.setup is not None]

    def set_up(manager: Manager) -> None:
        for each in setups:
            each(manager)

    return System(
        name=", ".join(dict.fromkeys(one.name for one in systems)),
        controllers=[each for one in systems for each in one.controllers],
        webhooks=[each for one in systems for each in one.webhooks],
        kinds=list(dict.fromkeys(each for one in systems for each in one.kinds)),
        logs={kind: source for one in systems for kind, source in one.logs.items()},
        service_addresses=next(iter(ranges.values()), None),
        setup=set_up if setups else None,
        hints=[each for one in systems for each in one.hints],
        urls={name: url for one in systems for name, url in one.urls.items()},
        needs_own_server=any(one.needs_own_server for one in systems),
    )


@asynccontextmanager
async def open_parts(*parts: Part) -> AsyncGenerator[System, None]:
    """Everything that these parts are, opened for the length of a block: controllers first, in the order given."""
    async with AsyncExitStack() as stack:
        plain = [one for one in parts if isinstance(one, Controller)]
        systems: list[System] = [System(name="controllers", controllers=plain)] if plain else []
        for part in parts:
            if isinstance(part, System):
                systems.append(replace(part, around=None))
                more = await stack.enter_async_context(part.around()) if part.around is not None else None
                systems += [] if more is None else [more]
        yield join(*systems)
