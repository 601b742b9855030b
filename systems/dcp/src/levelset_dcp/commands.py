"""What the words of `levelset-dcp` do; each gives the exit code."""

import argparse
import asyncio
import json
import os
import platform
import signal
import ssl
import sys
import urllib.error
import urllib.request
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from typing import Final
from urllib.parse import urlencode

from levelset.errors import ConfigError, LevelsetError, Unreachable
from levelset_dcp.naming import API
from levelset_dcp.records import SqliteRecords, state_path
from levelset_dcp.runtimes import NONE, open_runtime
from levelset_dcp.session import Session, SessionOptions, ask_session, find_session, monitored, open_session
from levelset_dcp.session.workloads import WorkloadReport, clean_workload
from levelset_machine import Machine

__all__ = ["cleanup", "info", "logs", "start", "stop", "version"]

_PLURALS: Final = {"executable": "executables", "container": "containers", "containerexec": "containerexecs"}
_CHUNK: Final = 65536


def start(said: argparse.Namespace) -> int:
    """Runs a session until somebody says so, or the process that it belongs to ends."""
    if said.monitor is None and said.monitor_identity_time is not None:
        raise ConfigError("--monitor-identity-time says which --monitor is meant: give both, or none")
    options = SessionOptions(
        kubeconfig=said.kubeconfig.absolute(),
        port=said.port,
        monitor=None if said.monitor is None else monitored(said.monitor, said.monitor_identity_time),
        workload=said.workload_id,
        shutdown_within=said.shutdown_timeout,
        runtime=said.container_runtime,
    )
    return asyncio.run(_run(options))


async def _run(options: SessionOptions) -> int:
    async with open_session(options) as session:
        _on_signals(session)
        _say(f"levelset-dcp is at {session.local.server.url}")
        _say(f"kubectl --kubeconfig {options.kubeconfig} get dcp")
        await session.wait_stopping()
    _say(f"levelset-dcp ends: {session.why or 'it was asked to'}")
    report = session.report
    for name in () if report is None else report.left:
        sys.stderr.write(f"levelset-dcp: {name} is left\n")
    return 0 if report is None or report.is_complete else 1


def _on_signals(session: Session) -> None:
    """The first signal ends the session in an orderly way; the second one ends this process at once."""
    loop = asyncio.get_running_loop()

    def told(number: int) -> None:
        for one in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(one)
            signal.signal(one, signal.SIG_DFL)
        session.begin("Stopping", why=f"{signal.Signals(number).name} was sent")

    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, told, one)


def stop(said: argparse.Namespace) -> int:
    """Ends a session, which cleans up first; returns when that has begun."""
    wish = {"status": "Stopping", **({"shutdownResourceCleanup": "None"} if said.keep else {})}
    ask_session(find_session(said.kubeconfig), wish)
    return 0


def cleanup(said: argparse.Namespace) -> int:
    """Removes what is remembered of a workload."""
    report = asyncio.run(_clean(said.workload, said.container_runtime, said.wait))
    if said.output == "json":
        _say(json.dumps(report.tree, indent=2))
    else:
        for name, stopped in report.tree["stopped"].items():
            _say(f"{name}: {', '.join(stopped) or 'none'}")
        for failure in report.failures:
            sys.stderr.write(f"levelset-dcp: {failure}\n")
    return 1 if report.failures else 0


async def _clean(workload: str, runtime: str | None, patience: float) -> WorkloadReport:
    async with SqliteRecords(state_path()) as records, Machine(guard=False) as machine:
        found = await records.belongings(workload)
        # Nobody waits for an engine that is not needed.
        async with open_runtime(runtime if found.resources else NONE) as engine:
            return await clean_workload(records, workload, runner=machine, engine=engine, patience=patience)


def logs(said: argparse.Namespace) -> int:
    """Shows a log, as it comes."""
    kind, _, name = said.name.rpartition("/")
    plural = _PLURALS.get((kind or "executable").lower().removesuffix("s"))
    if plural is None or not name:
        raise ConfigError(f"{said.name}: name an Executable, or KIND/NAME with one of {', '.join(_PLURALS)}")
    contact = find_session(said.kubeconfig)
    flags = {name: "true" for name in ("follow", "timestamps") if getattr(said, name)}
    query = {"source": said.source, **flags, **({} if said.tail is None else {"tail": str(said.tail)})}
    url = f"{contact.url}/apis/{API}/{plural}/{name}/log?{urlencode(query)}"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {contact.token}"})  # noqa: S310
    context = ssl.create_default_context(cadata=contact.ca.decode()) if contact.ca else None
    try:
        with urllib.request.urlopen(request, context=context) as answer:  # noqa: S310
            while data := answer.read1(_CHUNK):
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
    except urllib.error.HTTPError as error:
        raise LevelsetError(_reason(error)) from error
    except BrokenPipeError:
        raise  # nobody looks any more, which is no trouble of the session
    except OSError as error:
        raise Unreachable(f"the session at {contact.url} does not answer: {error}") from error
    return 0


def _reason(error: urllib.error.HTTPError) -> str:
    text = error.read().decode(errors="replace")
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return f"the server says {error.code}: {text[:200]}"


def info(said: argparse.Namespace) -> int:
    """Says how the engine is, and where things are."""
    shown = {"version": _version(), "state": str(state_path()), "containers": asyncio.run(_engine(said))}
    _say(json.dumps(shown, indent=2))
    return 0


async def _engine(said: argparse.Namespace) -> dict[str, object]:
    async with open_runtime(said.container_runtime) as engine:
        if engine is None:
            return {"runtime": NONE, "installed": False, "running": False}
        status = await engine.check_status()
        return {
            "runtime": engine.name,
            "hostName": engine.host_name,
            "installed": status.is_installed,
            "running": status.is_running,
            "version": status.version,
            "error": status.message,
        }


def version(_: argparse.Namespace) -> int:
    """Says which version this is."""
    _say(json.dumps({"version": _version(), "python": platform.python_version(), "pid": os.getpid()}))
    return 0


def _version() -> str:
    try:
        return version_of("levelset-dcp")
    except PackageNotFoundError:
        return "unknown"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
