"""The `levelset-dcp` command: starts and stops sessions, shows logs, and removes persistent resources.

Exit codes: 0 success, 1 failure, 2 usage or configuration error.
"""

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
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from levelset.command_parser import CommandParser
from levelset.errors import ConfigError, LevelsetError, Unreachable
from levelset_dcp.engines.selection import NONE, RUNTIMES, open_runtime
from levelset_dcp.names import API
from levelset_dcp.records import SqliteRecords, state_path
from levelset_dcp.session import (
    Session,
    SessionOptions,
    call_session,
    default_kubeconfig,
    find_session,
    monitored_process,
    open_session,
)
from levelset_dcp.session.workload_cleanup import WorkloadReport, clean_workload
from levelset_machine import LogRotation, Machine

__all__ = ["engine_info", "main", "parser"]

_CHUNK: Final = 65536
_PLURALS: Final = {"executable": "executables", "container": "containers", "containerexec": "containerexecs"}
_SOURCES: Final = ("stdout", "stderr", "startup_stdout", "startup_stderr", "system")


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with its exit code."""
    arguments = parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = arguments.run
    try:
        code = run(arguments)
    except ConfigError as error:
        sys.stderr.write(f"levelset-dcp: {error}\n")
        code = 2
    except LevelsetError as error:
        sys.stderr.write(f"levelset-dcp: {error}\n")
        code = 1
    except (KeyboardInterrupt, BrokenPipeError):
        code = 1
    sys.exit(code)


def parser() -> CommandParser:
    """The argument parser with all subcommands."""
    made = CommandParser(
        prog="levelset-dcp",
        description="The programs, containers and services of this machine as resources.",
        example="levelset-dcp start, and then kubectl --kubeconfig ~/.levelset-dcp/kubeconfig get dcp",
    )
    group = made.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, words: str, help_: str) -> CommandParser:
        return group.add_parser(name, help=help_, description=_sentence(help_), example=f"levelset-dcp {name}{words}")

    _add_start(add("start", " --kubeconfig shop.kubeconfig", "start a session and run it until it is stopped"))
    _add_cleanup(add("cleanup", " shop", "remove all persistent resources of a workload"))
    _add_logs(add("logs", " container/db --follow", "show the logs of a program or container"))
    info = add("info", "", "show the status of the container engine and the path of the state store")
    _add_runtime(info)
    info.set_defaults(run=_info)
    add("version", "", "show the version").set_defaults(run=_version)
    stop = add("stop", " --kubeconfig shop.kubeconfig", "stop a session gracefully")
    _add_kubeconfig(stop)
    stop.add_argument("--keep", action="store_true", help="do not delete the objects first")
    stop.set_defaults(run=_stop)
    return made


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _add_start(command: argparse.ArgumentParser) -> None:
    command.add_argument("--monitor", type=_pid, metavar="PID", help="stop when this process exits")
    command.add_argument(
        "--monitor-identity-time", type=int, metavar="T", help="its start time, field 22 of /proc/PID/stat"
    )
    _add_kubeconfig(command)
    command.add_argument("--port", type=_port, default=0, metavar="N", help="the server's port; 0 for any free one")
    command.add_argument("--workload-id", default="", metavar="ID", help="the workload that owns persistent resources")
    command.add_argument(
        "--shutdown-timeout", type=float, default=120.0, metavar="S", help="seconds that cleanup may take (120)"
    )
    command.add_argument("--log-size", type=_positive, default=10, metavar="MB", help="the size of one log file (10)")
    command.add_argument(
        "--log-files", type=_positive, default=5, metavar="N", help="how many files of each log are retained (5)"
    )
    _add_runtime(command)
    command.set_defaults(run=_start)


def _add_cleanup(command: argparse.ArgumentParser) -> None:
    command.add_argument("workload", metavar="WORKLOAD", help="the ID that was given to `start --workload-id`")
    command.add_argument("--output", choices=("text", "json"), default="text", help="the format of the report (text)")
    command.add_argument(
        "--wait", type=float, default=30.0, metavar="S", help="seconds to wait for leases of other sessions (30)"
    )
    _add_runtime(command)
    command.set_defaults(run=_cleanup)


def _add_logs(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="[KIND/]NAME", help="an Executable, or container/NAME, or containerexec/NAME")
    command.add_argument("-f", "--follow", action="store_true", help="stream new lines as they are written")
    command.add_argument("--source", choices=_SOURCES, default="stdout", help="which log (stdout)")
    command.add_argument("--tail", type=int, metavar="N", help="show only the last N lines")
    command.add_argument("--timestamps", action="store_true", help="show the time of each line")
    _add_kubeconfig(command)
    command.set_defaults(run=_logs)


def _add_kubeconfig(command: argparse.ArgumentParser) -> None:
    default = default_kubeconfig()
    command.add_argument(
        "--kubeconfig", type=Path, default=default, metavar="FILE", help=f"the kubeconfig of the session ({default})"
    )


def _add_runtime(command: argparse.ArgumentParser) -> None:
    command.add_argument("--container-runtime", choices=RUNTIMES, help="the container engine; detected by default")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("expected a number greater than 0")
    return number


def _pid(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("expected a process ID greater than 0")
    return number


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number < 65536:
        raise argparse.ArgumentTypeError("expected a port from 1 to 65535, or 0 for any free one")
    return number


def _start(arguments: argparse.Namespace) -> int:
    """Runs a session until it is stopped, or until the process that it monitors exits."""
    if arguments.monitor is None and arguments.monitor_identity_time is not None:
        raise ConfigError("--monitor-identity-time identifies the process of --monitor: give both, or none")
    monitor = None
    if arguments.monitor is not None:
        monitor = monitored_process(arguments.monitor, arguments.monitor_identity_time)
    options = SessionOptions(
        kubeconfig=arguments.kubeconfig.absolute(),
        port=arguments.port,
        monitor=monitor,
        workload=arguments.workload_id,
        shutdown_within=arguments.shutdown_timeout,
        log_rotation=LogRotation(size=arguments.log_size << 20, files=arguments.log_files),
        runtime=arguments.container_runtime,
    )
    return asyncio.run(_run_session(options))


async def _run_session(options: SessionOptions) -> int:
    async with open_session(options) as session:
        _handle_signals(session)
        _print(f"levelset-dcp is at {session.local.server.url}")
        _print(f"kubectl --kubeconfig {options.kubeconfig} get dcp")
        await session.wait_stopping()
    _print(f"levelset-dcp stopped: {session.why or 'stop requested'}")
    report = session.report
    for name in () if report is None else report.left:
        sys.stderr.write(f"levelset-dcp: {name} was not deleted\n")
    return 0 if report is None or report.is_complete else 1


def _handle_signals(session: Session) -> None:
    """Stops the session gracefully on the first signal; the second one terminates this process."""
    loop = asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        for one in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(one)
            signal.signal(one, signal.SIG_DFL)
        session.begin("Stopping", why=f"received {signal.Signals(number).name}")

    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, on_signal, one)


def _stop(arguments: argparse.Namespace) -> int:
    """Stops a session, which deletes its objects first; returns when that has begun."""
    change = {"status": "Stopping", **({"shutdownResourceCleanup": "None"} if arguments.keep else {})}
    call_session(find_session(arguments.kubeconfig), change)
    return 0


def _cleanup(arguments: argparse.Namespace) -> int:
    """Removes the persistent resources of a workload, and prints a report."""
    report = asyncio.run(_clean_workload(arguments.workload, arguments.container_runtime, arguments.wait))
    if arguments.output == "json":
        _print(json.dumps(report.tree, indent=2))
    else:
        for name, stopped in report.tree["stopped"].items():
            _print(f"{name}: {', '.join(stopped) or 'none'}")
        for failure in report.failures:
            sys.stderr.write(f"levelset-dcp: {failure}\n")
    return 1 if report.failures else 0


async def _clean_workload(workload: str, runtime: str | None, patience: float) -> WorkloadReport:
    async with SqliteRecords(state_path()) as records, Machine(guard=False) as machine:
        found = await records.workload_records(workload)
        # Detecting an engine takes seconds, so it is skipped when there is no container or network to remove.
        async with open_runtime(runtime if found.resources else NONE) as engine:
            return await clean_workload(records, workload, runner=machine, engine=engine, patience=patience)


def _logs(arguments: argparse.Namespace) -> int:
    """Streams a log to stdout."""
    kind, _, name = arguments.name.rpartition("/")
    plural = _PLURALS.get((kind or "executable").lower().removesuffix("s"))
    if plural is None or not name:
        raise ConfigError(f"{arguments.name}: name an Executable, or KIND/NAME with one of {', '.join(_PLURALS)}")
    contact = find_session(arguments.kubeconfig)
    flags = {name: "true" for name in ("follow", "timestamps") if getattr(arguments, name)}
    tail = {} if arguments.tail is None else {"tail": str(arguments.tail)}
    query = urlencode({"source": arguments.source, **flags, **tail})
    url = f"{contact.url}/apis/{API}/{plural}/{name}/log?{query}"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {contact.token}"})  # noqa: S310
    context = ssl.create_default_context(cadata=contact.ca.decode()) if contact.ca else None
    try:
        with urllib.request.urlopen(request, context=context) as response:  # noqa: S310
            while data := response.read1(_CHUNK):
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
    except urllib.error.HTTPError as error:
        raise LevelsetError(_error_message(error)) from error
    except BrokenPipeError:
        raise  # stdout was closed, which is no failure of the session
    except OSError as error:
        raise Unreachable(f"the session at {contact.url} does not answer: {error}") from error
    return 0


def _error_message(error: urllib.error.HTTPError) -> str:
    text = error.read().decode(errors="replace")
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return f"the server responded with {error.code}: {text[:200]}"


def _info(arguments: argparse.Namespace) -> int:
    """Prints the version, the path of the state store and the status of the engine as JSON."""
    engine = asyncio.run(engine_info(arguments.container_runtime))
    _print(json.dumps({"version": _installed_version(), "state": str(state_path()), "containers": engine}, indent=2))
    return 0


async def engine_info(runtime: str | None) -> dict[str, object]:
    """The status of the container engine, with the names of upstream's `dcp info`."""
    async with open_runtime(runtime) as engine:
        if engine is None:
            return {"runtime": NONE, "hostName": "", "installed": False, "running": False}
        status = await engine.check_status()
        return {
            "runtime": engine.name,
            "hostName": engine.host_name,
            "installed": status.is_installed,
            "running": status.is_running,
            "version": status.version,
            "error": status.message,
        }


def _version(_: argparse.Namespace) -> int:
    """Prints the version as JSON."""
    _print(json.dumps({"version": _installed_version(), "python": platform.python_version(), "pid": os.getpid()}))
    return 0


def _installed_version() -> str:
    try:
        return version_of("levelset-dcp")
    except PackageNotFoundError:
        return "unknown"


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
