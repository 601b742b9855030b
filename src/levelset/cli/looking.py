"""The page that a command serves beside what it runs: which port was asked for, and the part that serves it."""

import click

from levelset.manager import System

__all__ = ["open_dashboard", "read_dashboard"]


def read_dashboard(_: click.Context, option: click.Parameter, value: str) -> int | None:
    """The port that `--dashboard` names, 0 for any free one; None if no page is wanted."""
    if value.lower() == "no":
        return None
    if not (value.isascii() and value.isdecimal() and len(value) <= 5 and int(value) <= 65535):
        raise click.BadParameter(f"{value}: give a port up to 65535, 0 for any free one, or no", param=option)
    return int(value)


def open_dashboard(port: int) -> System:
    """The part to run with the others."""
    from levelset.dashboard import dashboard  # noqa: PLC0415  # late: other commands do without

    return dashboard(port)
