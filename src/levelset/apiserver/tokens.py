"""The secrets of the owner in a file: one token per line, made up if there is no file yet."""

import os
import secrets
from pathlib import Path

from levelset.errors import ConfigError
from levelset.web import write_private

__all__ = ["load_tokens", "new_token"]


def new_token() -> str:
    """A secret that nobody can guess."""
    return secrets.token_urlsafe(32)


def load_tokens(path: str | os.PathLike[str]) -> list[str]:
    """The tokens in the file, the first one being the owner's own; makes the file if there is none.

    Empty lines and lines that begin with `#` do not count. Raises ConfigError.
    """
    target = Path(path)
    try:
        text = target.read_text(encoding="utf-8")
    except FileNotFoundError:
        return [_make(target)]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The token file {target} cannot be read: {error}.") from error
    tokens = [line.strip() for line in text.splitlines()]
    tokens = [token for token in tokens if token and not token.startswith("#")]
    if not tokens:
        raise ConfigError(f"The token file {target} has no token in it: write one, or remove the file.")
    bad = [token for token in tokens if not token.isprintable() or not token.isascii() or " " in token]
    if bad:
        raise ConfigError(f"The token file {target} has a line that is no token: use printable ASCII without spaces.")
    return tokens


def _make(target: Path) -> str:
    token = new_token()
    try:
        write_private(target, f"{token}\n".encode())
    except OSError as error:
        raise ConfigError(f"The token file {target} cannot be written: {error.strerror or error}.") from error
    return token
