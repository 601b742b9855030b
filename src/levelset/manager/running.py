"""A whole program in one call: `run(websites)` finds the cluster, works until it is told to stop, and says how it went.

```python
if __name__ == "__main__":
    run(websites)
```
"""

import asyncio
import json
import logging
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from typing import Any, Final

from levelset.client.client import Client
from levelset.client.kinds import view_of
from levelset.controller.controller import Controller
from levelset.errors import ConfigError, LevelsetError, NotReady
from levelset.manager.arguments import USAGE, Arguments, read_arguments
from levelset.manager.definitions import install_definitions, kinds_of
from levelset.manager.election import LeaderElection
from levelset.manager.hosting import Hosted
from levelset.manager.locally import open_box
from levelset.manager.logs import LogStyle, set_up_logs
from levelset.manager.manager import Manager
from levelset.manager.servers import Address
from levelset.objects.identity import GroupVersionKind
from levelset.web import loops
from levelset.webhook.group import Several, Webhooks

__all__ = ["Waiting", "run"]

Waiting = Callable[[Callable[[], str]], AbstractContextManager[None]]
"""Is entered while something is waited for, and given a function that says what that is just now."""

_log: Final = logging.getLogger("levelset.manager")
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def run(
    *controllers: Controller[Any],
    local: bool = False,
    kubeconfig: str | None = None,
    context: str | None = None,
    namespace: str | None = None,
    leader: LeaderElection | None = None,
    health: Address | None = None,
    grace: float | None = 30.0,
    log: LogStyle | None = None,
    arguments: Sequence[str] | None = None,
    setup: Callable[[Manager], object] | None = None,
    webhooks: Webhooks | Several = (),
    waiting: Waiting | None = None,
) -> None:
    """Runs controllers until SIGINT or SIGTERM comes; what is under way may finish then, unless a second one comes.

    The command line may say the same as the keywords, and wins (`arguments` are its words, those of this process unless
    given): `--local`, `--kubeconfig`, `--data`, `--port`, `--context`, `--namespace`, `--health`, `--output`,
    `--log-json`. With `local` an API server of its own is brought along, which serves the kinds in use and asks the
    `webhooks` itself; any other server is told where to ask them (see `Manager`). `setup` is called with the manager
    before it starts, to add tasks, hooks and checks; `waiting` is entered while it connects, and until all controllers
    have their first lists. Returns after an orderly end; raises SystemExit otherwise, with 2 if it could not begin
    because of what it was told, and with 1 if something failed later. If uvloop is installed, its event loop is used.
    """
    began = time.perf_counter()
    given = Arguments(local=local, kubeconfig=kubeconfig, context=context, namespace=namespace)
    try:
        said = read_arguments(sys.argv[1:] if arguments is None else arguments)
        if said.help:
            _say(f"{sys.argv[0]} runs {', '.join(one.name for one in controllers)}\n{USAGE}")
            return
        set_up_logs("json" if said.log_json else log)
        _require_controllers(controllers)
        options: dict[str, Any] = {"leader": leader, "grace": grace, "health": said.health or health, "admin": True}
        options["webhooks"] = webhooks if isinstance(webhooks, Webhooks) else Webhooks(webhooks)
        program = _Program(controllers, _merged(given, said), options, setup, began, waiting=waiting or _quietly)
        loops.run(program.run())
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from error
    except KeyboardInterrupt:
        raise SystemExit(128 + signal.SIGINT) from None
    except (ExceptionGroup, LevelsetError) as error:
        _log.error("ended because something failed", exc_info=error)
        raise SystemExit(1) from error


class _Program:
    """One run: where it works, what it says, and how it is told to stop."""

    def __init__(
        self,
        controllers: Sequence[Controller[Any]],
        arguments: Arguments,
        options: dict[str, Any],
        setup: Callable[[Manager], object] | None,
        began: float,
        *,
        waiting: Waiting,
    ) -> None:
        self._arguments = arguments
        self._controllers = [_confined(one, arguments.namespace) for one in controllers]
        self._options = options
        self._webhooks: Webhooks = options["webhooks"]
        self._setup = setup
        self._began = began
        self._waiting = waiting
        self._facts: dict[str, str | list[str]] = {}
        """What is said when it has begun, by the word before it."""
        self._hint = ""

    async def run(self) -> None:
        async with AsyncExitStack() as stack:
            with self._waiting(lambda: "opens the server" if self._arguments.local else "connects to the cluster"):
                client = await self._open(stack)
            manager = Manager(client, **self._options)
            hosted = [manager.add(one) for one in self._controllers]
            manager.add_task("the ready line", lambda: self._announce(manager, hosted), leader_only=False)
            if self._setup is not None:
                self._setup(manager)
            async with manager:
                _heed_signals(manager)
                await manager.wait_stopped()

    async def _open(self, stack: AsyncExitStack) -> Client:
        """The client; with --local of a server that is brought along, and serves what is used."""
        said = self._arguments
        views = kinds_of(self._controllers)
        if self._webhooks.hooks:
            self._facts["asks"] = [one.name for one in self._webhooks.hooks]
        if self._webhooks.conversions:
            self._facts["converts"] = [_shown(one.gvk) for one in self._webhooks.conversions]
        if not said.local:
            client = await Client.connect(said.kubeconfig, context=said.context, namespace=said.namespace)
            await stack.enter_async_context(client)
        else:
            box = await stack.enter_async_context(open_box(said.kubeconfig, data=said.data, port=said.port))
            client = await Client.connect(box.server, namespace=said.namespace)
            await stack.enter_async_context(client)
            # Those of the webhooks first: of several versions the hub is the one that is stored.
            others = [view_of(one) for one in self._webhooks.kinds]
            known = {view.gvk for view in others}
            made = await install_definitions(client, [*others, *(one for one in views if one.gvk not in known)])
            self._facts |= {"url": box.server.url, "kubeconfig": str(box.kubeconfig)}
            self._facts |= {"serves": list(made)} if made else {}
            path = shlex.quote(str(box.kubeconfig))
            self._hint = f"  kubectl --kubeconfig {path} get {_resource(self._controllers[0])}"
        self._facts["watches"] = [_shown(view.gvk) for view in views]
        return client

    async def _announce(self, manager: Manager, hosted: Sequence[Hosted]) -> None:
        self._facts |= manager.urls
        is_json = self._arguments.output == "json"
        if not is_json:
            for name, value in self._facts.items():
                _say(f"{name:<11} {value if isinstance(value, str) else ', '.join(value)}")
        try:
            with self._waiting(lambda: _late(hosted)):
                for one in hosted:
                    await (await one.wait_running()).wait_ready()
        except NotReady:
            if manager.is_stopping:
                return  # somebody did not want to wait any longer, which is no failure
            raise
        milliseconds = (time.perf_counter() - self._began) * 1000
        if is_json:
            _say(json.dumps({**self._facts, "ready_ms": round(milliseconds, 1)}, ensure_ascii=False))
            return
        _say(f"ready in {milliseconds:.0f} ms{'. Type next, in another terminal:' if self._hint else ''}")
        if self._hint:
            _say(self._hint)


def _quietly(_: Callable[[], str]) -> AbstractContextManager[None]:
    return nullcontext()


def _late(hosted: Sequence[Hosted]) -> str:
    """The words for what is waited for until all have begun."""
    late = [one.name for one in hosted if one.running is None or not one.running.is_ready]
    return f"waits for the first lists of {', '.join(late)}"


def _heed_signals(manager: Manager) -> None:
    """The first signal asks the manager to stop, the second ends the process."""
    loop = asyncio.get_running_loop()

    def heed(number: int) -> None:
        if manager.is_stopping:
            sys.stderr.write("ended at once; what was under way is not finished\n")
            os._exit(128 + number)
        _log.info("stops when what is under way is done; a second signal ends at once")
        manager.request_stop()

    for number in _SIGNALS:
        loop.add_signal_handler(number, heed, number)


def _merged(given: Arguments, said: Arguments) -> Arguments:
    return Arguments(
        local=said.local or given.local,
        kubeconfig=said.kubeconfig or given.kubeconfig,
        context=said.context or given.context,
        namespace=said.namespace or given.namespace,
        data=said.data,
        output=said.output,
        port=said.port,
    )


def _require_controllers(controllers: Sequence[object]) -> None:
    for one in controllers:
        if not isinstance(one, Controller):
            raise ConfigError(f"run({one!r}): give controllers, such as run(Controller(Website, reconcile))")
    if not controllers:
        raise ConfigError("run(): give at least one controller, such as run(Controller(Website, reconcile))")


def _confined(controller: Controller[Any], namespace: str | None) -> Controller[Any]:
    if namespace is None or controller.namespace is not None:
        return controller
    return controller.with_options(namespace=namespace)


def _resource(controller: Controller[Any]) -> str:
    view = kinds_of([controller])[0]
    return view.gvk.kind.lower() if view.definition is None else view.definition.plural


def _shown(gvk: GroupVersionKind) -> str:
    return f"{gvk.kind} ({gvk.api_version})"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
