"""`levelset envtest`: this server in place of kube-apiserver and etcd, for tests in Go with envtest."""

import os
import shlex
import shutil
import sys
from pathlib import Path

import click

from levelset.apiserver.envtest import default_folder, write_assets
from levelset.cli.output import UsageError, output_option, reporting_errors, show_json

__all__ = ["envtest"]

_VARIABLE = "KUBEBUILDER_ASSETS"


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option("--folder", type=click.Path(path_type=Path), help="Where the programs are; by default in your cache.")
@click.option("--path", "only_path", is_flag=True, help="Print only the folder.")
@click.option(
    "--controllers",
    is_flag=True,
    help="Also collect garbage and finish namespaces, as kube-controller-manager does, and envtest does not.",
)
@output_option
@click.argument("command", nargs=-1, metavar="[COMMAND ...]")
def envtest(*, folder: Path | None, only_path: bool, controllers: bool, output: str, command: tuple[str, ...]) -> None:
    """Runs Go tests that use envtest on this server in place of kube-apiserver and etcd.

    Writes a folder with programs of these names, and runs COMMAND with KUBEBUILDER_ASSETS set to it. Without COMMAND it
    prints the line for the shell: eval "$(levelset envtest)".

    Example: levelset envtest go test ./...
    """
    place = (folder or default_folder(sys.executable, controllers=controllers)).absolute()
    with reporting_errors():
        write_assets(place, controllers=controllers)
    if command:
        _run(command, place)
    elif output == "json":
        show_json({_VARIABLE: str(place)})
    else:
        click.echo(str(place) if only_path else f"export {_VARIABLE}={shlex.quote(str(place))}")


def _run(command: tuple[str, ...], place: Path) -> None:
    """Replaces this process by the command: its signals and its exit code are the command's."""
    program = shutil.which(command[0])
    if program is None:
        raise UsageError(f"{command[0]} is not on PATH; install it, or name a program that is there")
    sys.stdout.flush()
    os.execve(program, command, {**os.environ, _VARIABLE: str(place)})  # noqa: S606 - no shell is wanted
