"""The subcommands of `levelset`, imported lazily: only the module of the command that runs is loaded."""

import importlib
from typing import Final

import click

from levelset.garbage_collection import loading

__all__ = ["COMMANDS", "CommandGroup", "LazyGroup", "levelset"]

COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "tour": ("levelset.cli.tour:tour", "Shows the main features in seconds, by running them."),
    "init": ("levelset.cli.scaffold.create:init", "Creates a project with one kind, its controller and its tests."),
    "create": ("levelset.cli.scaffold.create:create", "Adds a kind or webhooks to a project."),
    "serve": ("levelset.cli.serve:serve", "Runs a Kubernetes API server on this machine."),
    "compact": ("levelset.cli.compact:compact", "Compacts the history of a running server up to now."),
    "storage": ("levelset.cli.data_file:storage", "Checks, repairs and copies the storage of a server."),
    "up": ("levelset.cli.up:up", "Runs an API server and all controllers of a project."),
    "run": (
        "levelset.cli.run:run",
        "Runs controllers until SIGINT or SIGTERM.",
    ),
    "dev": ("levelset.cli.dev:dev", "Runs controllers on a local API server and reloads them when a file is saved."),
    "dashboard": (
        "levelset.cli.dashboard:dashboard",
        "Serves the dashboard of any cluster, or shows recordings and reports.",
    ),
    "generate": (
        "levelset.cli.generate:generate",
        "Generates CRDs, RBAC, manifests, Helm charts and Python models.",
    ),
    "check": ("levelset.cli.check:check", "Checks a project: CRDs, RBAC, blocking calls, breaking changes."),
    "explore": (
        "levelset.cli.explore:explore",
        "Tests controllers with crashes, conflicts and stale caches at every step.",
    ),
    "envtest": (
        "levelset.cli.envtest:envtest",
        "Runs Go tests that use envtest on this server in place of kube-apiserver and etcd.",
    ),
    "install": (
        "levelset.cli.install:install",
        "Applies the CRDs of controllers' kinds, and manifests.",
    ),
    "uninstall": ("levelset.cli.install:uninstall", "Deletes from a cluster what `levelset install` applied."),
    "doctor": (
        "levelset.cli.doctor:doctor",
        "Diagnoses problems: kubeconfig, server, credentials, CRDs, permissions.",
    ),
    "completion": (
        "levelset.cli.completion:completion",
        "Prints the completion script of a shell.",
    ),
    "status": (
        "levelset.cli.status:status",
        "Shows the controllers, queues, watches and last errors of running managers.",
    ),
    "top": ("levelset.cli.top:top", "Shows the queues, rates and errors of the controllers, live."),
    "logs": ("levelset.cli.logs:logs", "Prints the log of a Pod, or of another object that has one."),
    "why": ("levelset.cli.status:why", "Shows the last reconciles of an object, with reasons and results."),
    "replay": ("levelset.cli.replay:replay", "Plays a recorded run again, without a cluster, and shows what differs."),
    "record": ("levelset.cli.record:record", "Records running managers, and compares recordings."),
    "trigger": ("levelset.cli.status:trigger", "Triggers a reconcile of an object in a running manager."),
    "version": ("levelset.cli.version:version", "Prints the version."),
}
"""The module of each command and its short help, so that `levelset --help` imports none of them."""


_SHORT_HELP: Final = 200


class CommandGroup(click.Group):
    """A group whose help has the first sentence of each command whole; click cuts it off at the end of a line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands in the help."""
        with formatter.section("Commands"):
            formatter.write_dl(self.command_rows(ctx))

    def command_rows(self, ctx: click.Context) -> list[tuple[str, str]]:
        """The name and the short help of each command."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        return [(name, one.get_short_help_str(_SHORT_HELP)) for name, one in found if one is not None]


class LazyGroup(CommandGroup):
    """A group that imports a command when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of `COMMANDS`."""
        return [*COMMANDS, *(name for name in super().list_commands(ctx) if name not in COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports and returns the command."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        module, _, name = entry[0].partition(":")
        with loading("command"):
            found: click.Command = getattr(importlib.import_module(module), name)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first word; a usage error names the nearest (click itself knows only imported ones)."""
        typed = args[0]
        if not typed.startswith("-") and self.get_command(ctx, typed) is None and not ctx.resilient_parsing:
            from difflib import get_close_matches  # noqa: PLC0415  # for a mistake only

            near = get_close_matches(typed, self.list_commands(ctx), n=1)
            ctx.fail(f"No such command {typed!r}.{f' Did you mean {near[0]!r}?' if near else ''}")
        return super().resolve_command(ctx, args)

    def command_rows(self, ctx: click.Context) -> list[tuple[str, str]]:  # noqa: ARG002  # as the base class
        """The rows of `COMMANDS`, without importing them, and those of commands that were added."""
        rows = [(name, line) for name, (_, line) in COMMANDS.items()]
        return rows + [(name, one.get_short_help_str(_SHORT_HELP)) for name, one in self.commands.items()]


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="levelset", message="levelset %(version)s")
def levelset() -> None:
    """Level-based Kubernetes controllers in Python.

    Example: levelset init shop --kind Order --api shop.example.dev/v1
    """
