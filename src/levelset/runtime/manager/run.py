"""`run`: a whole program in one call. It connects to the cluster, runs until a signal, and sets the exit code.

```python
if __name__ == "__main__":
    run(websites)
```

The command line options are parsed by hand: they are few, and a program may have a framework of its own.
"""

import asyncio
import dataclasses
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec.structs import replace

from levelset.aio import event_loop
from levelset.client import WarningLog
from levelset.client.client import Client
from levelset.client.internals import server_url
from levelset.client.transport.interface import Hook
from levelset.errors import ConfigError, LevelsetError, NotReady
from levelset.garbage_collection import loading
from levelset.objects.ref import GroupVersionKind
from levelset.runtime.cache.object_store import DECODED_BYTES
from levelset.runtime.controller.controller import Controller
from levelset.runtime.controller.relations import Namespaces
from levelset.runtime.manager.crd_install import install_crds, kinds_of, kinds_to_serve
from levelset.runtime.manager.http_endpoints import Address
from levelset.runtime.manager.logs import LogStyle, set_up_logs
from levelset.runtime.manager.manager import HostedController, Manager
from levelset.runtime.manager.process_records import private_folder
from levelset.runtime.manager.ready_message import DISABLED, fact_lines, ready_lines
from levelset.runtime.manager.system import Part, System, open_parts
from levelset.runtime.recording import Recording, parse_size, parse_time, recording_of

if TYPE_CHECKING:
    from levelset.runtime.manager.command_hints import HintSpelling
    from levelset.runtime.manager.leader_election import LeaderElection
    from levelset.runtime.manager.sharding.member import Sharding
    from levelset.runtime.manager.tracing import Tracing
    from levelset.runtime.webhook.webhook_set import NestedWebhooks, Webhooks

__all__ = ["USAGE", "Arguments", "Waiting", "read_address", "read_arguments", "resource_name", "run"]

USAGE: Final = """\
  --local            start an in-memory API server in this process, with the CRDs of all kinds in use
  --kubeconfig PATH  the kubeconfig of the cluster; with --local, where to write one for kubectl
  --data PATH        with --local, the file that stores the objects (default: in memory)
  --durability NAME  with --data, full (default: every write survives a loss of power) or normal (quicker)
  --port NUMBER      with --local, the port of the API server (default: any free port)
  --rbac             with --local, authorize other users than the owner by RBAC, service accounts among them
  --kubernetes-version 1.N
                     with --local, the version that the API server reports
  --context NAME     the context in the kubeconfig
  --namespace NAME   reconcile only this namespace; for several, give it once for each
  --leader NAME      elect a leader among replicas with the Lease of this name; the others wait
  --shards NAME      share the objects with all replicas of this name: each has one owner among them
  --health ADDRESS   serve /healthz, /readyz and /metrics at PORT or HOST:PORT
  --output text|json print addresses and watched kinds as text, or as one line of JSON
  --record FILE      record the run in this file, for `levelset replay`
  --record-size SIZE end recordings at this size (default: 256Mi)
  --record-time TIME end recordings after this time, such as 10m
  --log-json         write logs as JSON, one object per line (same as LEVELSET_LOG=json)
  --verbose          log the tracebacks of errors with the frames of levelset
  --help             show this help"""


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    """The parsed options; None where an option was not given."""

    local: bool = False
    kubeconfig: str | None = None
    context: str | None = None
    namespaces: tuple[str, ...] = ()
    data: str | None = None
    durability: Literal["full", "normal"] | None = None
    port: int | None = None
    rbac: bool = False
    kubernetes_version: str | None = None
    leader: str | None = None
    shards: str | None = None
    health: tuple[str, int] | None = None
    output: str | None = None
    log_json: bool = False
    verbose: bool = False
    record: str | None = None
    record_size: int | None = None
    record_time: float | None = None
    help: bool = False


_FLAGS: Final = {
    "--local": "local",
    "--rbac": "rbac",
    "--log-json": "log_json",
    "--verbose": "verbose",
    "--help": "help",
    "-h": "help",
}
_VALUES: Final = {
    "--kubeconfig": "kubeconfig",
    "--context": "context",
    "--data": "data",
    "--durability": "durability",
    "--port": "port",
    "--kubernetes-version": "kubernetes_version",
    "--namespace": "namespaces",
    "-n": "namespaces",
    "--leader": "leader",
    "--shards": "shards",
    "--health": "health",
    "--output": "output",
    "--record": "record",
    "--record-size": "record_size",
    "--record-time": "record_time",
    "-o": "output",
}
_OUTPUTS: Final = ("text", "json")
_DURABILITIES: Final = ("full", "normal")


def read_arguments(words: Sequence[str]) -> Arguments:
    """Parses command line options; ConfigError, with the usage, for an unknown one."""
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
            if "namespaces" in changes:
                changes = {"namespaces": (*dict.fromkeys((*found.namespaces, value)),)}
        else:
            raise ConfigError(_unknown(word))
        found = replace(found, **changes)
    return found


def _unknown(word: str) -> str:
    """The message about a word that is no option: the nearest one, or all of them."""
    from levelset.command_parser import suggestion  # noqa: PLC0415  # for a mistake only

    near = suggestion(word, [*_FLAGS, *_VALUES])
    return (
        f"unknown option {word}. {near} --help shows all options" if near else f"unknown option {word}; usage:\n{USAGE}"
    )


def _read_value(word: str, value: str) -> str | float | tuple[str, int]:
    if not value or value.startswith("--"):
        raise ConfigError(f"{word} needs a value; usage:\n{USAGE}")
    if word == "--port":
        return _read_port(value)
    if _VALUES[word] == "output" and value not in _OUTPUTS:
        raise ConfigError(f"{word} {value}: must be text or json")
    if word == "--durability" and value not in _DURABILITIES:
        raise ConfigError(f"{word} {value}: must be full or normal")
    readers: dict[str, Callable[[str], str | float | tuple[str, int]]] = {
        "--health": read_address,
        "--record-size": parse_size,
        "--record-time": parse_time,
    }
    return readers[word](value) if word in readers else value


def _read_port(value: str) -> int:
    if not value.isdecimal() or not value.isascii() or int(value) > 65535:
        raise ConfigError(f"--port {value}: must be a number up to 65535, or 0 for any free port")
    return int(value)


def read_address(value: str) -> tuple[str, int]:
    """The host and the port of `--health`; a port alone is on the loopback interface."""
    host, _, port = value.rpartition(":")
    if not port.isdecimal() or not port.isascii() or int(port) > 65535:
        raise ConfigError(f"--health {value}: must be a port such as 8081, or a host and a port such as 0.0.0.0:8081")
    return host.strip("[]") or "127.0.0.1", int(port)


Waiting = Callable[[Callable[[], str]], AbstractContextManager[None]]
"""A context manager to show progress while `run` waits; it gets a function that says for what."""

_log: Final = logging.getLogger("levelset.runtime.manager")
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_RECORDING_SIGNALS: Final = {signal.SIGUSR1: True, signal.SIGUSR2: False}


def run(
    *parts: Part,
    local: bool = False,
    kubeconfig: str | None = None,
    context: str | None = None,
    namespace: Namespaces = None,
    leader: "LeaderElection | None" = None,
    shards: "Sharding | None" = None,
    health: Address | None = None,
    grace: float | None = 30.0,
    decoded_bytes: int = DECODED_BYTES,
    log: LogStyle | None = None,
    arguments: Sequence[str] | None = None,
    setup: Callable[[Manager], object] | None = None,
    webhooks: "Webhooks | NestedWebhooks" = (),
    waiting: Waiting | None = None,
    hints: Sequence[str] | None = None,
    tracing: "Tracing | None" = None,
    record: str | Path | Recording | None = None,
    began: float | None = None,
) -> None:
    """Runs controllers and systems until SIGINT or SIGTERM; then running reconciles finish, unless a second one comes.

    Inside a running event loop use `Manager`, in scripts and tests `open_local` or the fixtures of `levelset.testing`.
    Command line options (`arguments`, by default those of this process) override the keywords: `--local`,
    `--kubeconfig`, `--data`, `--durability`, `--port`, `--kubernetes-version`, `--context`, `--namespace`, `--leader`,
    `--shards`, `--health`, `--output`, `--record...`, `--log-json`, `--verbose`. `kubeconfig`, `context` and
    `namespace` (or several) say which cluster, and where controllers without namespaces of their own reconcile;
    `leader` elects one of several replicas, `shards` divides the objects among them; `health` is the host and port of
    health checks and metrics; `grace` is how long running reconciles may take at the end (None: as they need);
    `decoded_bytes` is as for `Cluster`; `log` is the style of the logs, `plain` or `json`. With `local` an API server
    is started here, which serves the kinds in use and calls the `webhooks` directly; in any other server they are
    registered (see `Manager`). `setup` gets the manager before it starts; `waiting` is entered until all controllers
    have synced; `hints` are the commands to print, in place of those of its systems; `tracing` makes spans of
    reconciles and requests; `record` is the file to record in (SIGUSR1 begins a recording, SIGUSR2 ends it); the ready
    line counts from `began`. Returns after an orderly stop; else raises SystemExit: 2 for a usage error.
    """
    given = Arguments(local=local, kubeconfig=kubeconfig, context=context, namespaces=_names(namespace))
    try:
        parsed = read_arguments(sys.argv[1:] if arguments is None else arguments)
        if parsed.help:
            _print(f"{sys.argv[0]} runs {', '.join(one.name for one in parts)}\n{USAGE}")
            return
        set_up_logs("json" if parsed.log_json else log, verbose=parsed.verbose)
        _require_parts(parts)
        options = _replicas(leader, shards, parsed) | {"health": parsed.health or health, "webhooks": webhooks}
        options |= {"grace": grace, "decoded_bytes": decoded_bytes, "record": _recording(record, parsed)}
        shown: dict[str, Any] = {"waiting": waiting or _no_progress, "hints": hints, "tracing": tracing, "began": began}
        event_loop.run(_Program(parts, _merged(given, parsed), options, setup, **shown).run())
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from error
    except BrokenPipeError:
        _discard_output()
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(128 + signal.SIGINT) from None
    except (ExceptionGroup, LevelsetError) as error:
        _log.error("stopped because of a failure", exc_info=error)
        raise SystemExit(1) from error


def _discard_output() -> None:
    """Sends the rest of standard output nowhere: at the end Python would flush it, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _names(namespace: Namespaces) -> tuple[str, ...]:
    return (namespace,) if namespace and isinstance(namespace, str) else tuple(namespace or ())


def _election(given: "LeaderElection | None", name: str | None) -> "LeaderElection | None":
    """The leader election of the keyword, with the Lease of `--leader` if that is given."""
    if name is None:
        return given
    from levelset.runtime.manager.leader_election import LeaderElection  # noqa: PLC0415  # programs without replicas need none

    return LeaderElection(name=name) if given is None else dataclasses.replace(given, name=name)


def _replicas(leader: "LeaderElection | None", shards: "Sharding | None", parsed: Arguments) -> dict[str, Any]:
    """How replicas work together: by the keywords, with the names of `--leader` and `--shards` if they are given."""
    if parsed.shards is not None:
        from levelset.runtime.manager.sharding.member import Sharding  # noqa: PLC0415  # as for an election

        shards = Sharding(name=parsed.shards) if shards is None else dataclasses.replace(shards, name=parsed.shards)
    return {"leader": _election(leader, parsed.leader), "shards": shards}


def _recording(given: str | Path | Recording | None, parsed: Arguments) -> Recording | None:
    """The recording of the keyword, with what the options say; with limits alone it is not recorded yet."""
    found = None if given is None else recording_of(given)
    if parsed.record is not None:
        found = Recording(parsed.record) if found is None else replace(found, path=parsed.record, from_start=True)
    limits: dict[str, Any] = {"max_bytes": parsed.record_size, "max_seconds": parsed.record_time}
    limits = {name: value for name, value in limits.items() if value is not None}
    if limits and found is None:
        found = Recording(private_folder() / f"{os.getpid()}.levelset", from_start=False)
    return None if found is None else replace(found, **limits)


def _all_webhooks(given: "Webhooks | NestedWebhooks", more: Sequence[Any]) -> "Webhooks | None":
    """The webhooks of the keyword and of the systems as one value; None if there are none."""
    if given == () and not more:
        return None
    # Imported late: they bring an HTTPS server and certificates along, and most programs have none.
    from levelset.runtime.webhook.webhook_set import Webhooks  # noqa: PLC0415

    own = given if isinstance(given, Webhooks) else Webhooks(given)
    return own.with_more(more) if more else own


class _Program:
    """One run of a program: connects, starts the manager, prints the ready line, and handles signals."""

    def __init__(
        self,
        parts: Sequence[Part],
        arguments: Arguments,
        options: dict[str, Any],
        setup: Callable[[Manager], object] | None,
        *,
        waiting: Waiting,
        hints: Sequence[str] | None,
        tracing: "Tracing | None",
        began: float | None,
    ) -> None:
        self._arguments = arguments
        self._parts = parts
        self._options: dict[str, Any] = {**options, "admin": True, "observers": () if tracing is None else (tracing,)}
        self._setup = setup
        self._began = time.perf_counter() if began is None else began
        self._waiting = waiting
        self._hooks: Sequence[Hook] = () if tracing is None else (tracing.hook,)
        self._facts: dict[str, str | list[str] | dict[str, str]] = {}
        """What is printed at the start, by the key that it has in JSON."""
        self._given_hints = hints
        self._hints: list[str] = []
        self._disabled: dict[str, str] = {}
        self._broken_pipe: BrokenPipeError | None = None

    async def run(self) -> None:
        async with open_parts(*self._parts) as whole, AsyncExitStack() as stack:
            webhooks = _all_webhooks(self._options["webhooks"], whole.webhooks)
            self._options["webhooks"] = () if webhooks is None else webhooks
            action = "starting the API server" if self._arguments.local else "connecting to the cluster"
            with self._waiting(lambda: action), loading("server"):
                client = await self._open(stack, whole, webhooks)
            manager = Manager(client, **self._options)
            hosted = [manager.add(_in_namespaces(one, self._arguments.namespaces)) for one in whole.controllers]
            manager.add_task("the ready line", lambda: self._announce(manager, hosted), leader_only=False)
            manager.panels = whole.panels
            for setup in (whole.setup, self._setup):
                if setup is not None:
                    setup(manager)
            _report_unhandled(manager)
            async with manager:
                _handle_signals(manager)
                await manager.wait_stopped()
        if self._broken_pipe is not None:
            raise self._broken_pipe

    async def _open(self, stack: AsyncExitStack, whole: System, webhooks: "Webhooks | None") -> Client:
        """Connects the client; with --local to a server in this process, with the CRDs of all kinds in use."""
        parsed = self._arguments
        # One namespace is that of the client, too; of several, none is.
        namespace = parsed.namespaces[0] if len(parsed.namespaces) == 1 else None
        on_warning = WarningLog(expected=whole.expected_warnings)
        options: dict[str, Any] = {"namespace": namespace, "hooks": self._hooks, "on_warning": on_warning}
        if webhooks is not None and webhooks.hooks:
            self._facts["webhooks"] = [one.name for one in webhooks.hooks]
        if webhooks is not None and webhooks.conversions:
            self._facts["conversions"] = [_kind_text(one.gvk) for one in webhooks.conversions]
        if not parsed.local:
            if whole.needs_own_server:
                raise ConfigError(f"{whole.name}: needs an API server of its own; pass --local, or leave it out")
            client = await Client.connect(parsed.kubeconfig, context=parsed.context, **options)
            await stack.enter_async_context(client)
            self._facts["url"] = server_url(client)
            self._hints = self._cluster_hints(whole)
        else:
            # Imported late, as the server that it starts: most programs talk to one that is there already.
            from levelset.runtime.manager.command_hints import HintSpelling  # noqa: PLC0415
            from levelset.runtime.manager.local_server import open_local_server  # noqa: PLC0415

            local = await stack.enter_async_context(
                open_local_server(
                    parsed.kubeconfig,
                    data=parsed.data,
                    durability=parsed.durability or "full",
                    port=parsed.port,
                    rbac=parsed.rbac,
                    kubernetes_version=parsed.kubernetes_version,
                    system=whole,
                )
            )
            client = await Client.connect(local.server, **options)
            await stack.enter_async_context(client)
            made = await install_crds(client, kinds_to_serve(whole, webhooks))
            self._facts |= {"url": local.server.url, "kubeconfig": str(local.kubeconfig)}
            self._facts |= {"serves": list(made)} if made else {}
            if local.kubeconfig is not None:
                self._choose_hints(whole, HintSpelling(local.kubeconfig))
        self._facts |= whole.urls
        self._facts["watches"] = list(dict.fromkeys(_kind_text(view.gvk) for view in kinds_of(whole.controllers)))
        found = dict[str, str]() if whole.find_disabled is None else await whole.find_disabled()
        if disabled := {**whole.disabled, **found, **self._disabled}:
            self._facts[DISABLED] = disabled
        return client

    def _choose_hints(self, whole: System, spelling: "HintSpelling") -> None:
        first = [f"kubectl get {resource_name(whole.controllers[0])}"] if whole.controllers else []
        self._hints = spelling.spell(whole.hints or first if self._given_hints is None else self._given_hints)
        if not spelling.has_kubectl:
            self._disabled["kubectl"] = "install it to read and write objects by hand"

    def _cluster_hints(self, whole: System) -> list[str]:
        """What to type next beside a cluster, for a person at a terminal."""
        if not sys.stdout.isatty():
            return []
        from levelset.runtime.manager.command_hints import cluster_hints  # noqa: PLC0415  # as with --local

        kinds = [resource_name(one) for one in whole.controllers[:1]]
        return cluster_hints(kinds, self._arguments.kubeconfig, self._arguments.context)

    async def _announce(self, manager: Manager, hosted: Sequence[HostedController]) -> None:
        """Prints the addresses and the ready line; stops the program if its output is a pipe without a reader."""
        try:
            await self._print_ready(manager, hosted)
        except BrokenPipeError as error:
            self._broken_pipe = error
            manager.request_stop()

    async def _print_ready(self, manager: Manager, hosted: Sequence[HostedController]) -> None:
        self._facts |= manager.urls
        is_json = self._arguments.output == "json"
        if not is_json:
            for line in fact_lines(self._facts):
                _print(line)
        try:
            with self._waiting(lambda: _pending(hosted)):
                for one in hosted:
                    await (await one.wait_running()).wait_ready()
        except NotReady:
            if manager.is_stopping:
                return  # stopped by a signal while waiting, which is no failure
            raise
        milliseconds = (time.perf_counter() - self._began) * 1000
        if is_json:
            _print(msgspec.json.encode({**self._facts, "ready_ms": round(milliseconds, 1)}).decode())
            return
        for line in ready_lines(milliseconds, self._hints):
            _print(line)


def _no_progress(_: Callable[[], str]) -> AbstractContextManager[None]:
    return nullcontext()


def _pending(hosted: Sequence[HostedController]) -> str:
    """The controllers that have not synced yet, as text."""
    pending = [one.name for one in hosted if one.running is None or not one.running.is_ready]
    return f"waiting for the caches of {', '.join(pending)}"


def _report_unhandled(manager: Manager) -> None:
    """Logs and counts the errors that reach the event loop: of callbacks, and of tasks that no code awaits."""

    def handle(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        task = context.get("task") or context.get("future")
        where = task or context.get("handle") or context.get("protocol")
        manager.metrics.count_unhandled("callback" if task is None else "task")
        error = context.get("exception")
        _log.error("unhandled error: %s: %r", context.get("message", "a callback"), where or error, exc_info=error)

    asyncio.get_running_loop().set_exception_handler(handle)


def _handle_signals(manager: Manager) -> None:
    """Stops the manager gracefully at the first signal, ends the process at the second, and switches recordings."""
    loop = asyncio.get_running_loop()

    def handle(number: int) -> None:
        if manager.is_stopping:
            sys.stderr.write("stopped immediately; running reconciles were not finished\n")
            os._exit(128 + number)
        _log.info("shutting down gracefully; press Ctrl-C again to force")
        manager.request_stop()

    for number in _SIGNALS:
        # A process started with nohup ignores SIGHUP, and continues when its terminal is closed.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, handle, number)
    for number, is_on in _RECORDING_SIGNALS.items():
        # A program that has a use of its own for the signal keeps it.
        if signal.getsignal(number) is signal.SIG_DFL:
            loop.add_signal_handler(number, partial(manager.switch_recording, on=is_on))


def _merged(given: Arguments, parsed: Arguments) -> Arguments:
    return Arguments(
        local=parsed.local or given.local,
        kubeconfig=parsed.kubeconfig or given.kubeconfig,
        context=parsed.context or given.context,
        namespaces=parsed.namespaces or given.namespaces,
        data=parsed.data,
        durability=parsed.durability,
        output=parsed.output,
        port=parsed.port,
        rbac=parsed.rbac,
        kubernetes_version=parsed.kubernetes_version,
    )


def _require_parts(parts: Sequence[object]) -> None:
    for one in parts:
        if not isinstance(one, Controller | System):
            raise ConfigError(f"run({one!r}): pass controllers or systems, such as run(Controller(Website, reconcile))")
    if not parts:
        raise ConfigError("run(): pass at least one controller, such as run(Controller(Website, reconcile))")


def _in_namespaces(controller: Controller[Any], namespaces: tuple[str, ...]) -> Controller[Any]:
    if not namespaces or controller.namespace is not None:
        return controller
    return controller.with_options(namespace=namespaces)


def resource_name(controller: Controller[Any]) -> str:
    """The kind of a controller as it is written in `kubectl get`."""
    view = kinds_of([controller])[0]
    return view.gvk.kind.lower() if view.definition is None else view.definition.plural


def _kind_text(gvk: GroupVersionKind) -> str:
    return f"{gvk.kind} ({gvk.api_version})"


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
