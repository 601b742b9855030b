"""The subcommands of `levelset` and their options."""

from importlib.metadata import version as installed

import click

from levelset.cli.serve import compact, serve
from levelset.cli.tour import STOPS

__all__ = ["levelset", "tour", "version"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="levelset", message="levelset %(version)s")
def levelset() -> None:
    """Level-based Kubernetes controllers in Python."""


levelset.add_command(serve)
levelset.add_command(compact)


@levelset.command()
def version() -> None:
    """Prints the version."""
    click.echo(f"levelset {installed('levelset')}")


@levelset.command()
def tour() -> None:
    """Shows in a minute what is there, by using it."""
    for number, stop in enumerate(STOPS, 1):
        click.secho(f"{number}. {stop.title}", bold=True)
        for line in stop.lines():
            click.echo(f"   {line}")
        click.echo()
    click.echo("This was src/levelset/cli/tour.py. Next: read README.md, and type `make test`.")
