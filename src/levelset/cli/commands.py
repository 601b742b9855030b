"""The subcommands of `levelset`: a table of names, of which only the one that is typed is loaded."""

import importlib
from typing import Final

import click

from levelset.cli.output import heading, output_option, show_json
from levelset.cli.tour import STOPS

__all__ = ["COMMANDS", "Table", "levelset", "tour", "version"]

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "init": ("levelset.cli.scaffold.create:init", "Makes a project with one kind, its controller and its tests."),
    "create": ("levelset.cli.scaffold.create:create", "Adds a kind or webhooks to a project."),
    "serve": ("levelset.cli.serve:serve", "Runs a Kubernetes API server on this machine until it is stopped."),
    "compact": ("levelset.cli.compact:compact", "Makes a running server forget its history of changes up to now."),
    "up": ("levelset.cli.up:up", "Runs an API server and all controllers of a project, until they are told to stop."),
    "run": ("levelset.cli.run:run", "Runs controllers until they are told to stop."),
    "dev": ("levelset.cli.dev:dev", "Runs controllers on a server of their own, loaded anew when a file is saved."),
    "generate": (
        "levelset.cli.generate:generate",
        "Writes files out of types, and types out of files.",
    ),
    "check": ("levelset.cli.check:check", "Looks for what would go wrong: definitions, permissions, calls that block."),
    "explore": ("levelset.cli.explore:explore", "Crashes, delays and confuses controllers at every step."),
    "install": (
        "levelset.cli.install:install",
        "Applies the definitions of controllers' kinds, and manifests.",
    ),
    "uninstall": ("levelset.cli.install:uninstall", "Takes from a cluster what `levelset install` has put there."),
    "doctor": (
        "levelset.cli.doctor:doctor",
        "Looks for what is wrong: the kubeconfig, the server, permissions.",
    ),
    "completion": (
        "levelset.cli.completion:completion",
        "Prints what makes a shell complete this command.",
    ),
    "status": ("levelset.cli.status:status", "Shows the controllers, queues, watches and last errors of what runs."),
    "why": ("levelset.cli.status:why", "Shows the last looks at an object: why, and what came of it."),
    "trigger": ("levelset.cli.status:trigger", "Has a running controller look at an object now."),
}
"""Where each command is, and its help in a line: `levelset --help` loads none of them."""


class Table(click.Group):
    """A group that knows its commands by name, and loads one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order in which they are needed."""
        return [*COMMANDS, *(name for name in super().list_commands(ctx) if name not in COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, loaded."""
        place = COMMANDS.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        module, _, name = place[0].partition(":")
        found: click.Command = getattr(importlib.import_module(module), name)
        return found

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002  # click gives it
        formatter: click.HelpFormatter,
    ) -> None:
        """Lists the commands for the help without loading them."""
        rows = [(name, line) for name, (_, line) in COMMANDS.items()]
        rows += [(name, one.get_short_help_str(90)) for name, one in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.group(cls=Table, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="levelset", message="levelset %(version)s")
def levelset() -> None:
    """Level-based Kubernetes controllers in Python."""


@levelset.command()
@output_option
def version(output: str) -> None:
    """Prints the version."""
    # Late: it brings parsers along that no other command needs.
    from importlib.metadata import version as installed  # noqa: PLC0415

    if output == "json":
        show_json({"version": installed("levelset")})
    else:
        click.echo(f"levelset {installed('levelset')}")


@levelset.command()
@output_option
def tour(output: str) -> None:
    """Shows in a minute what is there, by using it."""
    if output == "json":
        show_json([{"title": stop.title, "lines": list(stop.lines())} for stop in STOPS])
        return
    for number, stop in enumerate(STOPS, 1):
        click.echo(heading(f"{number}. {stop.title}"))
        for line in stop.lines():
            click.echo(f"   {line}")
        click.echo()
    click.echo("This was src/levelset/cli/tour.py. Next: read README.md, and type `make test`.")
