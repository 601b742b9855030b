"""The command `levelset-omnia`: runs the operator on a cluster or on a server of its own, or writes its manifests.

What it does not know itself (`--local`, `--kubeconfig`, `--context`, `--namespace`, `--health`, `--log-json`) is for
`levelset.run`, as with every program that calls it.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from levelset import LeaderElection, LevelsetError, run
from levelset_omnia.durations import seconds_of
from levelset_omnia.manifests import manifests
from levelset_omnia.naming import DEFAULT_AGENT_IMAGE, LEASE
from levelset_omnia.options import Options
from levelset_omnia.system import omnia_system

__all__ = ["main", "read_options"]


def main(words: Sequence[str] | None = None) -> None:
    """Does what the command line says; ends with 2 if it cannot be understood."""
    parser = _parser()
    said, rest = parser.parse_known_args(words)
    if rest and said.command != "run":
        parser.error(f"{rest[0]} is not understood here")
    try:
        options = read_options(said)
        if said.command == "run":
            leader = LeaderElection(name=LEASE) if said.leader_elect else None
            run(omnia_system(options), leader=leader, arguments=rest)
            return
        made = manifests(options, image=said.image, namespace=said.namespace, replicas=said.replicas)
        _write(made, said.directory)
    except (LevelsetError, ValueError) as error:
        parser.error(str(error))


def read_options(said: argparse.Namespace) -> Options:
    """The operator's options, as the command line says them."""
    return Options(
        agent_image=said.agent_image,
        workers=said.workers,
        dependency_seconds=seconds_of(said.dependency_interval),
        retry_first=seconds_of(said.retry_first),
        retry_longest=seconds_of(said.retry_longest),
        drain_seconds=round(seconds_of(said.drain)),
        readiness_delay=round(seconds_of(said.readiness_delay)),
        readiness_period=round(seconds_of(said.readiness_period)),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="levelset-omnia", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    shared = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    _add_options(shared)
    running = commands.add_parser(
        "run",
        parents=[shared],
        allow_abbrev=False,
        help="run the operator",
        epilog="And: --local --data --port --kubeconfig --context --namespace --health --log-json, as of levelset.run.",
    )
    running.add_argument("--leader-elect", action="store_true", help="work only while this replica holds the Lease")
    writing = commands.add_parser("manifests", parents=[shared], help="write what a cluster needs to run the operator")
    writing.add_argument("--image", default="ghcr.io/altairalabs/omnia-operator:latest", help="the operator's image")
    writing.add_argument("--namespace", default="omnia-system", help="where it runs")
    writing.add_argument("--replicas", type=int, default=1, help="how many; several elect a leader")
    writing.add_argument("-d", "--directory", type=Path, help="where to write a file for each subject; else to stdout")
    return parser


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--agent-image", default=DEFAULT_AGENT_IMAGE, help="the image that runs agents (%(default)s)")
    parser.add_argument("--workers", type=int, default=1, help="objects that each controller looks at at once (1)")
    parser.add_argument("--dependency-interval", default="30s", help="wait for what is not there (%(default)s)")
    parser.add_argument("--retry-first", default="5s", help="wait after a first failure (%(default)s)")
    parser.add_argument("--retry-longest", default="5m", help="wait after many failures (%(default)s)")
    parser.add_argument("--drain", default="0s", help="how long a pod that has to go still serves (%(default)s)")
    parser.add_argument("--readiness-delay", default="5s", help="ask a new agent after so long (%(default)s)")
    parser.add_argument("--readiness-period", default="10s", help="and again after so long (%(default)s)")


def _write(files: Mapping[str, str], directory: Path | None) -> None:
    if directory is None:
        sys.stdout.write(files["install.yaml"])
        return
    for path, text in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        print(target)


if __name__ == "__main__":
    main()
