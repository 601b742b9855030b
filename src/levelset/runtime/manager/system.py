"""`System`: controllers and what they need beside them, started together by `run` and `levelset up`.

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

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from levelset.errors import ConfigError
from levelset.objects.resource import Object
from levelset.runtime.controller.controller import Controller
from levelset.runtime.manager.manager import Manager
from levelset.runtime.manager.object_panel import ObjectPanel

if TYPE_CHECKING:
    from levelset.apiserver.verbs.computed_kinds import ComputedSource
    from levelset.apiserver.verbs.subresources.pod_logs import LogSource
    from levelset.apiserver.verbs.subresources.stream_sources import StreamSources

__all__ = ["Part", "System", "join", "open_parts"]


class System(msgspec.Struct, frozen=True, kw_only=True):
    """Controllers that belong together, with their webhooks, kinds and setup.

    `kinds` are further kinds that an in-process API server should serve. `logs` are the sources of the `log`
    subresource by kind, `streams` those of `exec`, `attach` and `portforward`, and `service_addresses` the address
    range of Services; they are for such a server only. `setup` is called with the manager before it starts. `around` is
    entered before everything else and left last; the System that it yields, if any, is added to this one. `hints` are
    commands to type next, `urls` further addresses by name, and `disabled` the optional features that are off, each
    with how to switch it on; all are printed at the start.
    """

    name: str
    controllers: Sequence[Controller[Any]] = ()
    webhooks: Sequence[Any] = ()
    kinds: Sequence[type[Object]] = ()
    logs: "Mapping[type[Object], LogSource]" = msgspec.field(default_factory=dict[type[Object], "LogSource"])
    streams: "Mapping[type[Object], StreamSources]" = msgspec.field(default_factory=dict[type[Object], "StreamSources"])
    computed: "Mapping[type[Object], ComputedSource]" = msgspec.field(
        default_factory=dict[type[Object], "ComputedSource"]
    )
    """Kinds that an in-process API server computes for each request, such as metrics, with their sources."""
    panels: Mapping[type[Object], ObjectPanel] = msgspec.field(default_factory=dict[type[Object], ObjectPanel])
    """What the dashboard shows on the pages of these kinds, besides what it shows of all."""
    service_addresses: str | None = None
    setup: Callable[[Manager], object] | None = None
    around: "Callable[[], AbstractAsyncContextManager[System | None]] | None" = None
    hints: Sequence[str] = ()
    urls: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    disabled: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    find_disabled: Callable[[], Awaitable[Mapping[str, str]]] | None = None
    """Finds more `disabled` features, if that takes a while: it is awaited when the server has started."""
    expected_warnings: Sequence[str] = ()
    """The warnings of the API server, word for word, that its requests cause knowingly; `run` does not log them."""
    needs_own_server: bool = False
    """Whether it replaces parts of a cluster, and so must not run against a cluster that has them."""


Part = Controller[Any] | System


def join(*systems: System) -> System:
    """One system that combines all of these; ConfigError if they need different Service addresses."""
    ranges = {one.name: one.service_addresses for one in systems if one.service_addresses}
    if len(set(ranges.values())) > 1:
        raise ConfigError(
            f"systems {', '.join(ranges)}: each needs a different address range for Services; run only one of them"
        )
    setups = [one.setup for one in systems if one.setup is not None]

    def set_up(manager: Manager) -> None:
        for each in setups:
            each(manager)

    searches = [one.find_disabled for one in systems if one.find_disabled is not None]

    async def find_disabled() -> Mapping[str, str]:
        return {name: how for search in searches for name, how in (await search()).items()}

    return System(
        name=", ".join(dict.fromkeys(one.name for one in systems)),
        controllers=[each for one in systems for each in one.controllers],
        webhooks=[each for one in systems for each in one.webhooks],
        kinds=list(dict.fromkeys(each for one in systems for each in one.kinds)),
        logs={kind: source for one in systems for kind, source in one.logs.items()},
        streams={kind: sources for one in systems for kind, sources in one.streams.items()},
        computed={kind: source for one in systems for kind, source in one.computed.items()},
        panels={kind: panel for one in systems for kind, panel in one.panels.items()},
        service_addresses=next(iter(ranges.values()), None),
        setup=set_up if setups else None,
        hints=[each for one in systems for each in one.hints],
        urls={name: url for one in systems for name, url in one.urls.items()},
        disabled={name: how for one in systems for name, how in one.disabled.items()},
        find_disabled=find_disabled if searches else None,
        expected_warnings=[each for one in systems for each in one.expected_warnings],
        needs_own_server=any(one.needs_own_server for one in systems),
    )


@asynccontextmanager
async def open_parts(*parts: Part) -> AsyncGenerator[System, None]:
    """Opens all parts for the length of a block and combines them: controllers first, in the order given."""
    async with AsyncExitStack() as stack:
        plain = [one for one in parts if isinstance(one, Controller)]
        systems: list[System] = [System(name="controllers", controllers=plain)] if plain else []
        for part in parts:
            if isinstance(part, System):
                systems.append(replace(part, around=None))
                more = await stack.enter_async_context(part.around()) if part.around is not None else None
                systems += [] if more is None else [more]
        yield join(*systems)
