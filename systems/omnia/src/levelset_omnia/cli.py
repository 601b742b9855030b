"""The command `levelset-omnia`: runs the operator on a cluster or on an embedded API server, or prints its manifests.

Other flags (`--local`, `--kubeconfig`, `--context`, `--namespace`, `--health`, `--log-json`) are passed to
`levelset.run`.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from levelset import LeaderElection, LevelsetError, run
from levelset.command_parser import CommandParser
from levelset_omnia.kinds.values import seconds_of
from levelset_omnia.manifests import manifests
from levelset_omnia.options import Options
from levelset_omnia.system import omnia_system
from levelset_omnia.well_known import DEFAULT_AGENT_IMAGE, LEASE

__all__ = ["main", "read_options"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command; exits with code 2 on a usage error."""
    parser = _parser()
    parsed, rest = parser.parse_known_args(arguments)
    if rest and parsed.command != "run":
        parser.refuse(rest[0], parsed)
    try:
        options = read_options(parsed)
        if parsed.command == "run":
            leader = LeaderElection(name=LEASE) if parsed.leader_elect else None
            run(omnia_system(options), leader=leader, arguments=rest)
            return
        made = manifests(options, image=parsed.image, namespace=parsed.namespace, replicas=parsed.replicas)
        _write(made, parsed.directory)
    except (LevelsetError, ValueError) as error:
        parser.error(str(error))


def read_options(parsed: argparse.Namespace) -> Options:
    """The operator's options from the parsed command line."""
    return Options(
        agent_image=parsed.agent_image,
        workers=parsed.workers,
        dependency_seconds=seconds_of(parsed.dependency_interval),
        retry_first=seconds_of(parsed.retry_first),
        retry_longest=seconds_of(parsed.retry_longest),
        drain_seconds=round(seconds_of(parsed.drain)),
        readiness_delay=round(seconds_of(parsed.readiness_delay)),
        readiness_period=round(seconds_of(parsed.readiness_period)),
        report_seconds=seconds_of(parsed.report_interval),
    )


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="levelset-omnia",
        description="Runs the operator on a cluster or on an embedded API server, or prints its manifests.",
        example="levelset-omnia run --local",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    shared = CommandParser(add_help=False, allow_abbrev=False)
    _add_options(shared)
    running = commands.add_parser(
        "run",
        parents=[shared],
        allow_abbrev=False,
        help="run the operator",
        description="Runs the operator until SIGINT or SIGTERM.",
        epilog="And: --local --data --port --kubeconfig --context --namespace --health --log-json, as of levelset.run.",
        example="levelset-omnia run --context kind",
    )
    running.add_argument(
        "--leader-elect", action="store_true", help="reconcile only while this replica holds the Lease"
    )
    writing = commands.add_parser(
        "manifests",
        parents=[shared],
        help="print the manifests that install the operator",
        description="Prints the manifests that install the operator.",
        example="levelset-omnia manifests --namespace omnia | kubectl apply -f -",
    )
    writing.add_argument("--image", default="ghcr.io/altairalabs/omnia-operator:latest", help="the operator's image")
    writing.add_argument("--namespace", default="omnia-system", help="the namespace of the operator")
    writing.add_argument("--replicas", type=int, default=1, help="the number of replicas; several elect a leader")
    writing.add_argument(
        "-d", "--directory", type=Path, help="write one file per topic to this directory instead of stdout"
    )
    return parser


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--agent-image", default=DEFAULT_AGENT_IMAGE, help="the image that runs agents (%(default)s)")
    parser.add_argument(
        "--workers", type=int, default=1, help="objects that each controller reconciles concurrently (1)"
    )
    parser.add_argument(
        "--dependency-interval", default="30s", help="requeue interval for a missing dependency (%(default)s)"
    )
    parser.add_argument("--retry-first", default="5s", help="backoff after the first failure (%(default)s)")
    parser.add_argument("--retry-longest", default="5m", help="longest backoff (%(default)s)")
    parser.add_argument("--drain", default="0s", help="preStop delay of an agent's pod (%(default)s)")
    parser.add_argument("--readiness-delay", default="5s", help="initial delay of the readiness probe (%(default)s)")
    parser.add_argument("--readiness-period", default="10s", help="period of the readiness probe (%(default)s)")
    parser.add_argument("--report-interval", default="5s", help="interval of reading the reports of Pods (%(default)s)")


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
