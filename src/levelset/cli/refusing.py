"""How a command says no: a sentence on stderr, and an exit code that a script can use."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import click

from levelset.errors import ConfigError, LevelsetError, Unauthorized

__all__ = ["Failed", "Refused", "speaking"]


class Refused(click.ClickException):
    """A sentence on stderr and exit code 2: it was not understood, or cannot start."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Prints the sentence alone."""
        click.echo(self.format_message(), err=True, file=file)


class Failed(Refused):
    """A sentence on stderr and exit code 1: it began, and something went wrong."""

    exit_code = 1


@contextmanager
def speaking() -> Generator[None, None, None]:
    """Turns the errors of levelset into sentences: what was said wrongly is refused, anything else has failed."""
    try:
        yield
    except ConfigError as error:
        raise Refused(str(error)) from error
    except Unauthorized as error:
        raise Failed(f"{error}: the token or certificate is not accepted; levelset doctor says more") from error
    except LevelsetError as error:
        raise Failed(str(error)) from error
