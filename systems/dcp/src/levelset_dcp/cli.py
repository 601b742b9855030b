"""The command `levelset-dcp`: starts a session, ends it, shows its logs, and removes what outlives sessions.

Exit codes: 0 done, 1 it failed, 2 it was not understood or cannot start.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from levelset.errors import ConfigError, LevelsetError
from levelset_dcp import commands
from levelset_dcp.runtimes import RUNTIMES
from levelset_dcp.session import default_kubeconfig

__all__ = ["main", "parser"]

_SOURCES = ("stdout", "stderr", "startup_stdout", "startup_stderr", "system")


def main(words: Sequence[str] | None = None) -> None:
    """Does what the command line says, and exits."""
    said = parser().parse_args(words)
    run: Callable[[argparse.Namespace], int] = said.run
    try:
        code = run(said)
    except ConfigError as error:
        sys.stderr.write(f"levelset-dcp: {error}\n")
        code = 2
    except LevelsetError as error:
        sys.stderr.write(f"levelset-dcp: {error}\n")
        code = 1
    except (KeyboardInterrupt, BrokenPipeError):
        code = 1
    sys.exit(code)


def parser() -> argparse.ArgumentParser:
    """What the command line may say."""
    made = argparse.ArgumentParser(
        prog="levelset-dcp",
        description="The programs, containers and services of this machine as resources.",
        epilog="Example: levelset-dcp start, and then kubectl --kubeconfig ~/.levelset-dcp/kubeconfig get dcp",
    )
    group = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_start(group.add_parser("start", help="start a session, and run it until it is told to stop"))
    _add_cleanup(group.add_parser("cleanup", help="remove everything persistent that belongs to a workload"))
    _add_logs(group.add_parser("logs", help="show what a program or container has written"))
    info = group.add_parser("info", help="say how the container engine is, and where things are")
    _add_runtime(info)
    info.set_defaults(run=commands.info)
    group.add_parser("version", help="say which version this is").set_defaults(run=commands.version)
    stop = group.add_parser("stop", help="end a session in an orderly way")
    _add_kubeconfig(stop)
    stop.add_argument("--keep", action="store_true", help="do not delete the objects first")
    stop.set_defaults(run=commands.stop)
    return made


def _add_start(one: argparse.ArgumentParser) -> None:
    one.add_argument("--monitor", type=_positive, metavar="PID", help="end when this process ends")
    one.add_argument("--monitor-identity-time", type=int, metavar="T", help="its start, field 22 of /proc/PID/stat")
    _add_kubeconfig(one)
    one.add_argument("--port", type=_port, default=0, metavar="N", help="the server's port; any free one if 0")
    one.add_argument("--workload-id", default="", metavar="ID", help="what persistent resources belong to")
    one.add_argument("--shutdown-timeout", type=float, default=120.0, metavar="S", help="seconds to clean up (120)")
    _add_runtime(one)
    one.set_defaults(run=commands.start)


def _add_cleanup(one: argparse.ArgumentParser) -> None:
    one.add_argument("workload", metavar="WORKLOAD", help="as it was told to `start --workload-id`")
    one.add_argument("--output", choices=("text", "json"), default="text", help="how to report (text)")
    one.add_argument("--wait", type=float, default=30.0, metavar="S", help="seconds to wait for other sessions (30)")
    _add_runtime(one)
    one.set_defaults(run=commands.cleanup)


def _add_logs(one: argparse.ArgumentParser) -> None:
    one.add_argument("name", metavar="[KIND/]NAME", help="an Executable, or container/NAME, or containerexec/NAME")
    one.add_argument("-f", "--follow", action="store_true", help="wait for more")
    one.add_argument("--source", choices=_SOURCES, default="stdout", help="which log (stdout)")
    one.add_argument("--tail", type=int, metavar="N", help="only the last lines")
    one.add_argument("--timestamps", action="store_true", help="say when each line was written")
    _add_kubeconfig(one)
    one.set_defaults(run=commands.logs)


def _add_kubeconfig(one: argparse.ArgumentParser) -> None:
    usual = default_kubeconfig()
    one.add_argument("--kubeconfig", type=Path, default=usual, metavar="FILE", help=f"what leads to it ({usual})")


def _add_runtime(one: argparse.ArgumentParser) -> None:
    one.add_argument("--container-runtime", choices=RUNTIMES, help="the engine; else whichever runs here")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("the number of a process is expected")
    return number


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number < 65536:
        raise argparse.ArgumentTypeError("a port from 1 to 65535 is expected, or 0 for any free one")
    return number


if __name__ == "__main__":
    main()
