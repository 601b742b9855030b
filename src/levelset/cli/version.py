"""`levelset version`: the version that is installed, as text or as JSON."""

from importlib.metadata import version as installed

import click

from levelset.cli.output import output_option, show_json

__all__ = ["version"]


@click.command()
@output_option
def version(output: str) -> None:
    """Prints the version.

    Example: levelset version --output json
    """
    if output == "json":
        show_json({"version": installed("levelset")})
    else:
        click.echo(f"levelset {installed('levelset')}")
