"""The `dcp` command, which a .NET Aspire AppHost starts: `dcp info`, `dcp version` and `dcp start-apiserver`.

Flags, environment variables and output are those of upstream's command. What is not supported is refused, with the
exit code 2.
"""

import argparse
import asyncio
import json
import logging
import logging.handlers
import os
import platform
import queue
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from levelset.apiserver import read_kubeconfig
from levelset.command_parser import CommandParser
from levelset.errors import ConfigError, LevelsetError
from levelset.http import CertificateFiles
from levelset_dcp.cli import engine_info
from levelset_dcp.engines.selection import RUNTIMES
from levelset_dcp.executables.monitor_process import began
from levelset_dcp.session import SessionOptions, default_kubeconfig, monitored_process, open_session
from levelset_dcp.workloads.health_probes import parse_duration
from levelset_machine import Identity

__all__ = ["VERSION", "main", "parser"]

VERSION: Final = "dev"
"""The version that is reported: an AppHost accepts it whatever its minimum is, as upstream's development builds."""
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_TRUE: Final = ("1", "true", "on", "yes")
_TOLERANCE: Final = 2.0
"""Seconds; the kernel reports the boot time in whole seconds."""
log = logging.getLogger("levelset_dcp")


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with its exit code."""
    arguments = parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = arguments.run
    try:
        code = run(arguments)
    except LevelsetError as error:
        sys.stderr.write(f"dcp: {error}\n")
        code = 2 if isinstance(error, ConfigError) else 1
    sys.exit(code)


def parser() -> CommandParser:
    """The argument parser with all subcommands."""
    made = CommandParser(
        prog="dcp",
        description="Runs the resources of an Aspire AppHost, on levelset.",
        example="dcp start-apiserver --kubeconfig shop.kubeconfig",
    )
    _add_verbosity(made, default=None)
    group = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    version = group.add_parser(
        "version", help="show the version as JSON", description="Shows the version as JSON.", example="dcp version"
    )
    version.set_defaults(run=_version)
    info = group.add_parser(
        "info",
        help="show the version and the status of the container engine as JSON",
        description="Shows the version and the status of the container engine as JSON.",
        example="dcp info --container-runtime podman",
    )
    info.add_argument("--container-runtime", choices=RUNTIMES, help="the container engine; detected by default")
    info.add_argument(
        "--diagnostics", action="store_true", help="show the system and the version of the engine's client, too"
    )
    info.add_argument(
        "-t", "--timeout", type=_duration, default="10s", metavar="D", help="how long to wait for the engine (10s)"
    )
    info.set_defaults(run=_info)
    start = group.add_parser(
        "start-apiserver",
        help="start the API server and the controllers",
        description="Starts the API server and the controllers.",
        example="dcp start-apiserver --monitor 4711 --detach --kubeconfig shop.kubeconfig",
    )
    start.add_argument("-m", "--monitor", type=int, metavar="PID", help="stop when this process exits")
    start.add_argument("--monitor-identity-time", type=_time, metavar="T", help="when it was started, in RFC 3339")
    start.add_argument("-i", "--monitor-interval", type=int, metavar="S", help="not needed: exits are seen at once")
    start.add_argument("--detach", action="store_true", help="run in the background, and return")
    start.add_argument(
        "--kubeconfig", type=Path, default=default_kubeconfig(), metavar="FILE", help="the kubeconfig to write"
    )
    start.add_argument("--port", type=int, default=0, metavar="N", help="the server's port; 0 for any free one")
    start.add_argument(
        "--workload-id",
        default=os.environ.get("DCP_WORKLOAD_ID", ""),
        metavar="ID",
        help="the workload that owns persistent resources",
    )
    start.add_argument("-r", "--root-dir", type=Path, metavar="DIR", help="the working directory")
    start.add_argument("--container-runtime", choices=RUNTIMES, help="the container engine; detected by default")
    start.add_argument("--server-only", action="store_true", help="start no controllers: another process runs them")
    _add_tls(start)
    start.set_defaults(run=_start)
    for command in (version, info, start):
        _add_verbosity(command, default=argparse.SUPPRESS)
    return made


def _add_verbosity(command: argparse.ArgumentParser, *, default: str | None) -> None:
    command.add_argument(
        "-v",
        "--verbosity",
        type=_level,
        default=default,
        metavar="LEVEL",
        help="log to stderr: debug, info, error, N",
    )


def _add_tls(start: argparse.ArgumentParser) -> None:
    start.add_argument("--tls-cert-file", type=Path, metavar="FILE", help="the server's certificate and its chain, PEM")
    start.add_argument("--tls-key-file", type=Path, metavar="FILE", help="the key of the certificate, PEM")
    start.add_argument("--tls-ca-file", type=Path, metavar="FILE", help="the CA, unless the chain has its root, PEM")
    start.add_argument("--tls-cert-thumbprint", default="", metavar="SHA1", help="what the certificate must have")


def _level(text: str) -> int:
    """A level of upstream: its numbers from 1 on are ever finer levels of debug."""
    name = text.removeprefix("=").lower()  # `-v=debug`, as upstream's parser takes it
    if name.isdecimal() and int(name) > 0:
        return logging.DEBUG
    if name not in ("debug", "info", "error"):
        raise argparse.ArgumentTypeError(f"{text}: debug, info, error or a number from 1 on is expected")
    return logging.getLevelNamesMapping()[name.upper()]


def _duration(text: str) -> str:
    if not parse_duration(text):
        raise argparse.ArgumentTypeError(f"{text}: a duration such as 10s or 500ms is expected")
    return text


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _version(_: argparse.Namespace) -> int:
    """Prints the version."""
    sys.stdout.write(f"{json.dumps({'version': VERSION})}\n")
    return 0


def _info(arguments: argparse.Namespace) -> int:
    """Prints the version and the status of the engine."""
    engine = asyncio.run(_engine_info(arguments.container_runtime, arguments.timeout))
    shown = {name: value for name, value in engine.items() if name != "version" and (name != "error" or value)}
    found: dict[str, object] = {"version": VERSION, "containers": shown}
    if arguments.diagnostics:
        shown["clientVersion"] = engine.get("version", "")
        machine = platform.machine()
        found |= {"os": platform.system().lower(), "architecture": _ARCHITECTURES.get(machine, machine)}
    sys.stdout.write(f"{json.dumps(found)}\n")
    return 0


async def _engine_info(runtime: str | None, within: str) -> dict[str, object]:
    try:
        async with asyncio.timeout(parse_duration(within)):
            return await engine_info(runtime)
    except TimeoutError:
        error = f"the container engine did not answer within {within}"
        return {"runtime": runtime or "", "hostName": "", "installed": True, "running": False, "error": error}


def _start(arguments: argparse.Namespace) -> int:
    """Runs a session until it is stopped; with --detach in another process."""
    certificate = _certificate(arguments)
    monitor = None if arguments.monitor is None else _monitored(arguments.monitor, arguments.monitor_identity_time)
    kubeconfig: Path = arguments.kubeconfig.absolute()
    _check_kubeconfig(kubeconfig)
    if arguments.detach:
        return _detach(sys.argv[1:])
    if arguments.root_dir is not None:
        os.chdir(arguments.root_dir)
    options = SessionOptions(
        kubeconfig=kubeconfig.with_name(f".{kubeconfig.name}.starting"),
        port=arguments.port,
        monitor=monitor,
        workload=arguments.workload_id,
        shutdown_within=float(os.environ.get("DCP_SHUTDOWN_TIMEOUT_SECONDS") or 120),
        runtime=arguments.container_runtime,
        certificate=certificate,
        server_only=arguments.server_only,
        token=os.environ.get("DCP_SECURE_TOKEN") or None,
        preserved_logs=_preserved_logs(os.environ),
    )
    try:
        with _log_stderr(arguments.verbosity), _log_socket(os.environ.get("DCP_LOG_SOCKET", "")):
            return asyncio.run(_run(options, kubeconfig))
    finally:
        _remove_session_folder(os.environ)


def _certificate(arguments: argparse.Namespace) -> CertificateFiles | None:
    """The certificate of the flags, which was checked; raises ConfigError."""
    certificate: Path | None = arguments.tls_cert_file
    key: Path | None = arguments.tls_key_file
    ca: Path | None = arguments.tls_ca_file
    if (certificate is None) is not (key is None):
        raise ConfigError("--tls-cert-file and --tls-key-file belong together: give both, or none")
    if certificate is not None and key is not None:
        authority = None if ca is None else ca.absolute()  # --root-dir changes the working directory
        files = CertificateFiles(certificate.absolute(), key.absolute(), authority, arguments.tls_cert_thumbprint)
        files.load()  # before --detach returns, so that its caller sees what is wrong
        return files
    if arguments.tls_cert_thumbprint:
        raise ConfigError("--tls-cert-thumbprint: only Windows has a certificate store; give --tls-cert-file, too")
    if ca is not None:
        raise ConfigError("--tls-ca-file needs --tls-cert-file and --tls-key-file")
    return None


def _monitored(pid: int, at: datetime | None) -> Identity:
    """The process to monitor; raises ConfigError if it does not run, or was started at another time."""
    found = monitored_process(pid)
    started = began(found)
    if at is not None and started is not None and abs(started - at.timestamp()) > _TOLERANCE:
        raise ConfigError(f"--monitor: process {pid} is another one: it was not started at {at.isoformat()}")
    return found


def _check_kubeconfig(path: Path) -> None:
    """Refuses to overwrite the kubeconfig of a cluster; raises ConfigError."""
    if path.exists():
        read_kubeconfig(path)


def _detach(arguments: Sequence[str]) -> int:
    """Starts this command in the background, without a terminal, and returns."""
    rest = [one for one in arguments if one != "--detach"]
    subprocess.Popen(  # noqa: S603  # the command itself, with the arguments that it was given
        [sys.executable, "-m", "levelset_dcp.dcp_command", *rest],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)},
        start_new_session=True,
    )
    return 0


async def _run(options: SessionOptions, kubeconfig: Path) -> int:
    """Runs a session; its kubeconfig appears when all kinds are served, since clients begin when it exists."""
    async with open_session(options) as session:
        loop = asyncio.get_running_loop()
        for one in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(one, partial(session.begin, "Stopping", why=f"received {one.name}"))
        await asyncio.to_thread(options.kubeconfig.replace, kubeconfig)
        log.info("the API server is at %s", session.local.server.url)
        try:
            await session.wait_stopping()
        finally:
            await asyncio.to_thread(kubeconfig.unlink, missing_ok=True)
    if options.preserved_logs is not None:
        log.info("the logs of programs are preserved in %s", options.preserved_logs)
    log.info("stopped: %s", session.why or "stop requested")
    return 0 if session.report is None or session.report.is_complete else 1


class _Format(logging.Formatter):
    """A line as an AppHost parses it: time, level, category and message, with tabs between them."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created).astimezone()
        level = {"WARNING": "warn", "CRITICAL": "error"}.get(record.levelname, record.levelname.lower())
        message = super().format(record).replace("\t", " ").replace("\n", " | ")
        return f"{when.isoformat(timespec='milliseconds')}\t{level}\tdcp.{record.name}\t{message}"


class _SocketHandler(logging.Handler):
    """Writes lines to a socket, until the reader is gone or does not read for two seconds."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self._connection: socket.socket | None = connection

    def emit(self, record: logging.LogRecord) -> None:
        if self._connection is None:
            return
        try:
            self._connection.sendall(f"{self.format(record)}\n".encode(errors="replace"))
        except OSError:
            self._connection = None


@contextmanager
def _log_stderr(level: int | None) -> Generator[None, None, None]:
    """Writes log lines of a level to stderr for the length of a block; none without a level, but for warnings."""
    if level is None:
        yield
        return
    root, handler = logging.getLogger(), logging.StreamHandler()
    handler.setFormatter(_Format())
    handler.setLevel(level)
    root.addHandler(handler)
    root.setLevel(level)
    try:
        yield
    finally:
        root.removeHandler(handler)


@contextmanager
def _log_socket(path: str) -> Generator[None, None, None]:
    """Writes log lines to a unix socket for the length of a block; a thread does, so that a slow reader delays none."""
    root = logging.getLogger()
    if not path:
        yield
        return
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(2.0)
        connection.connect(path)
    except OSError as error:
        sys.stderr.write(f"dcp: cannot write logs to the socket {path}: {error}\n")
        connection.close()
        yield
        return
    lines: queue.Queue[logging.LogRecord] = queue.Queue(maxsize=10_000)
    with connection:
        target = _SocketHandler(connection)
        target.setFormatter(_Format())
        listener = logging.handlers.QueueListener(lines, target)
        handler = logging.handlers.QueueHandler(lines)
        root.addHandler(handler)
        root.setLevel(min(root.level, logging.INFO) or logging.INFO)
        logging.raiseExceptions = False  # a full queue drops lines, and is worth no traceback
        listener.start()
        try:
            yield
        finally:
            root.removeHandler(handler)
            listener.stop()


def _preserved_logs(env: Mapping[str, str]) -> Path | None:
    """The folder of logs that are to be preserved: in that of the session, or one of its own; None if they go."""
    if env.get("DCP_PRESERVE_EXECUTABLE_LOGS", "").lower() not in _TRUE:
        return None
    folder = Path(env.get("DCP_SESSION_FOLDER") or ".").absolute()
    return folder / "logs" if env.get("DCP_SESSION_FOLDER") and folder.is_dir() else Path(mkdtemp(prefix="dcp-logs-"))


def _remove_session_folder(env: Mapping[str, str]) -> None:
    """Removes the folder that the AppHost made for this session, unless logs are to be preserved."""
    if env.get("DCP_PRESERVE_EXECUTABLE_LOGS", "").lower() in _TRUE or not env.get("DCP_SESSION_FOLDER"):
        return
    folder = Path(env["DCP_SESSION_FOLDER"]).absolute()
    if _is_own_folder(folder):
        shutil.rmtree(folder, ignore_errors=True)


def _is_own_folder(folder: Path) -> bool:
    """Whether a folder is one of this user only: no link, none that others may write to, as /tmp, nor our home."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & (stat.S_ISVTX | stat.S_IWOTH):
        return False
    return not any(one.resolve().is_relative_to(folder.resolve()) for one in (Path.home(), Path.cwd()))


if __name__ == "__main__":
    main()
