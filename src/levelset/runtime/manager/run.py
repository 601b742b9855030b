"""A whole program in one call: `run(websites)` finds the cluster, works until it is told to stop, and says how it went.

```python
if __name__ == "__main__":
    run(websites)
```

What may be said when a program that calls `run` is started: a handful of words, read without a framework.
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
from dataclasses import dataclass, replace
from typing import Any, Final

from levelset.aio import event_loop
from levelset.client.client import Client
from levelset.errors import ConfigError, LevelsetError, NotReady
from levelset.objects.ref import GroupVersionKind
from levelset.runtime.controller.controller import Controller
from levelset.runtime.manager.crd_install import install_definitions, kinds_of, kinds_served
from levelset.runtime.manager.http_endpoints import Address
from levelset.runtime.manager.leader_election import LeaderElection
from levelset.runtime.manager.local_server import open_box
from levelset.runtime.manager.logs import LogStyle, set_up_logs
from levelset.runtime.manager.manager import Hosted, Manager
from levelset.runtime.manager.system import Part, System, open_parts
from levelset.runtime.webhook.webhook_set import Several, Webhooks

__all__ = ["USAGE", "Arguments", "Waiting", "read_arguments", "run"]

USAGE: Final = """\
  --local            bring an API server of its own, in memory, with the definitions of all kinds in use
  --kubeconfig PATH  the file that says where the cluster is; with --local, where to write one for kubectl
  --data PATH        with --local, the file that keeps the objects; in memory unless given
  --port NUMBER      with --local, the port of the server; any free one unless given
  --context NAME     the context in it
  --namespace NAME   look at this namespace only
  --health ADDRESS   serve /healthz, /readyz and /metrics at PORT or HOST:PORT
  --output text|json say where it is and what it watches in lines for people, or in a line of JSON for programs
  --log-json         write logs as JSON, one object on each line; LEVELSET_LOG=json does the same
  --help             show this"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What was said; None where nothing was."""

    local: bool = False
    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    data: str | None = None
    port: int | None = None
    health: tuple[str, int] | None = None
    output: str | None = None
    log_json: bool = False
    help: bool = False


_FLAGS: Final = {"--local": "local", "--log-json": "log_json", "--help": "help", "-h": "help"}
_VALUES: Final = {
    "--kubeconfig": "kubeconfig",
    "--context": "context",
    "--data": "data",
    "--port": "port",
    "--namespace": "namespace",
    "-n": "namespace",
    "--health": "health",
    "--output": "output",
    "-o": "output",
}
_OUTPUTS: Final = ("text", "json")


def read_arguments(words: Sequence[str]) -> Arguments:
    """What these words of a command line say; ConfigError, with what there is, for any other."""
    found = Arguments()
    left = list(words)
    while left:
        word, is_joined, joined = left.pop(0).partition("=")
        changes: dict[str, Any]
        if word in _FLAGS and not is_joined:
            changes = {_FLAGS[word]: True}
        elif word in _VALUES:
            value = joined if is_joined else (left.pop(0) if left else "")
            changes = {_VALUES[word]: _read_value(word, value)}
        else:
            raise ConfigError(f"{word} is not understood here; there is\n{USAGE}")
        found = replace(found, **changes)
    return found


def _read_value(word: str, value: str) -> str | int | tuple[str, int]:
    if not value or value.startswith("--"):
        raise ConfigError(f"{word} needs a value; there is\n{USAGE}")
    if word == "--port":
        return _read_port(value)
    if _VALUES[word] == "output" and value not in _OUTPUTS:
        raise ConfigError(f"{word} {value}: choose text (for people) or json (for programs)")
    return _read_address(value) if word == "--health" else value


def _read_port(value: str) -> int:
    if not value.isdecimal() or not value.isascii() or int(value) > 65535:
        raise ConfigError(f"--port {value}: give a number up to 65535, or 0 for any free one")
    return int(value)


def _read_address(value: str) -> tuple[str, int]:
    host, _, port = value.rpartition(":")
    if not port.isdecimal() or not port.isascii() or int(port) > 65535:
        raise ConfigError(f"--health {value}: give a port such as 8081, or a host and a port such as 0.0.0.0:8081")
    return host.strip("[]") or "127.0.0.1", int(port)


Waiting = Callable[[Callable[[], str]], AbstractContextManager[None]]
"""Is entered while something is waited for, and given a function that says what that is just now."""

_log: Final = logging.getLogger("levelset.runtime.manager")
_SHOWN: Final = 4
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(
    *parts: Part,
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
    """Runs controllers and systems until SIGINT or SIGTERM comes; what is under way may finish then, unless again.

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
            _say(f"{sys.argv[0]} runs {', '.join(one.name for one in parts)}\n{USAGE}")
            return
        set_up_logs("json" if said.log_json else log)
        _require_parts(parts)
        options: dict[str, Any] = {"leader": leader, "grace": grace, "health": said.health or health, "admin": True}
        options["webhooks"] = webhooks if isinstance(webhooks, Webhooks) else Webhooks(webhooks)
        program = _Program(parts, _merged(given, said), options, setup, began, waiting=waiting or _quietly)
        event_loop.run(program.run())
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
        parts: Sequence[Part],
        arguments: Arguments,
        options: dict[str, Any],
        setup: Callable[[Manager], object] | None,
        began: float,
        *,
        waiting: Waiting,
    ) -> None:
        self._arguments = arguments
        self._parts = parts
        self._options = options
        self._setup = setup
        self._began = began
        self._waiting = waiting
        self._facts: dict[str, str | list[str]] = {}
        """What is said when it has begun, by the word before it."""
        self._hints: list[str] = []

    async def run(self) -> None:
        async with open_parts(*self._parts) as whole, AsyncExitStack() as stack:
            own: Webhooks = self._options["webhooks"]
            self._options["webhooks"] = webhooks = own if not whole.webhooks else own.with_more(whole.webhooks)
            with self._waiting(lambda: "opens the server" if self._arguments.local else "connects to the cluster"):
                client = await self._open(stack, whole, webhooks)
            manager = Manager(client, **self._options)
            hosted = [manager.add(_confined(one, self._arguments.namespace)) for one in whole.controllers]
            manager.add_task("the ready line", lambda: self._announce(manager, hosted), leader_only=False)
            for setup in (whole.setup, self._setup):
                if setup is not None:
                    setup(manager)
            async with manager:
                _heed_signals(manager)
                await manager.wait_stopped()

    async def _open(self, stack: AsyncExitStack, whole: System, webhooks: Webhooks) -> Client:
        """The client; with --local of a server that is brought along, and serves what is used."""
        said = self._arguments
        if webhooks.hooks:
            self._facts["asks"] = [one.name for one in webhooks.hooks]
        if webhooks.conversions:
            self._facts["converts"] = [_shown(one.gvk) for one in webhooks.conversions]
        if not said.local:
            if whole.needs_own_server:
                raise ConfigError(f"{whole.name}: plays a part of a cluster itself; say --local, or leave it out")
            client = await Client.connect(said.kubeconfig, context=said.context, namespace=said.namespace)
            await stack.enter_async_context(client)
        else:
            box = await stack.enter_async_context(
                open_box(said.kubeconfig, data=said.data, port=said.port, system=whole)
            )
            client = await Client.connect(box.server, namespace=said.namespace)
            await stack.enter_async_context(client)
            made = await install_definitions(client, kinds_served(whole, webhooks))
            self._facts |= {"url": box.server.url, "kubeconfig": str(box.kubeconfig)}
            self._facts |= {"serves": list(made)} if made else {}
            kubectl = f"kubectl --kubeconfig {shlex.quote(str(box.kubeconfig))}"
            first = [f"kubectl get {_resource(whole.controllers[0])}"] if whole.controllers else []
            self._hints = [one.replace("kubectl ", f"{kubectl} ", 1) for one in whole.hints or first]
        self._facts |= whole.urls
        self._facts["watches"] = list(dict.fromkeys(_shown(view.gvk) for view in kinds_of(whole.controllers)))
        return client

    async def _announce(self, manager: Manager, hosted: Sequence[Hosted]) -> None:
        self._facts |= manager.urls
        is_json = self._arguments.output == "json"
        if not is_json:
            for name, value in sorted(self._facts.items(), key=lambda one: isinstance(one[1], list)):
                _say(f"{name:<11} {value if isinstance(value, str) else _shortly(value)}")
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
        _say(f"ready in {milliseconds:.0f} ms{'. Type next, in another terminal:' if self._hints else ''}")
        for hint in self._hints:
            _say(f"  {hint}")


def _quietly(_: Callable[[], str]) -> AbstractContextManager[None]:
    return nullcontext()


def _late(hosted: Sequence[Hosted]) -> str:
    """The words for what is waited for until all have begun."""
    late = [one.name for one in hosted if one.running is None or not one.running.is_ready]
    return f"waits for the first lists of {', '.join(late)}"


def _shortly(several: Sequence[str]) -> str:
    """A line is to be read: of many, the first ones and how many more there are."""
    if len(several) <= _SHOWN + 1:
        return ", ".join(several)
    return f"{', '.join(several[:_SHOWN])} and {len(several) - _SHOWN} more"


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
        # Whoever was started with nohup goes on when its terminal is closed.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
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


def _require_parts(parts: Sequence[object]) -> None:
    for one in parts:
        if not isinstance(one, Controller | System):
            raise ConfigError(f"run({one!r}): give controllers, such as run(Controller(Website, reconcile))")
    if not parts:
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
