"""The secrets of the owner and of other users in a file: one token per line, made up if there is no file yet.

A line is a token of the owner's, or a token with the user it stands for, as kube-apiserver reads it:
`token,user,uid,"group1,group2"`, of which uid and groups may be left out.
"""

import csv
import os
import secrets
from pathlib import Path

from levelset.apiserver.authn.users import AUTHENTICATED, OWNER, Caller
from levelset.errors import ConfigError
from levelset.http import write_private

__all__ = ["load_tokens", "load_users", "new_token"]


def new_token() -> str:
    """A secret that nobody can guess."""
    return secrets.token_urlsafe(32)


def load_tokens(path: str | os.PathLike[str]) -> list[str]:
    """The owner's tokens in the file, the first one being the owner's own; makes the file if there is none.

    Empty lines and lines that begin with `#` do not count. Raises ConfigError.
    """
    return [token for token, caller in load_users(path).items() if caller is OWNER]


def load_users(path: str | os.PathLike[str]) -> dict[str, Caller]:
    """All tokens in the file with those whom they stand for; makes the file, with one of the owner's, if there is none.

    Raises ConfigError, also for a file without any token of the owner's.
    """
    target = Path(path)
    try:
        text = target.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {_make(target): OWNER}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The token file {target} cannot be read: {error}.") from error
    found: dict[str, Caller] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.strip().startswith("#"):
            token, caller = _read_line(line.strip(), f"The token file {target}, line {number}")
            if token in found:
                raise ConfigError(f"The token file {target}, line {number}: the same token stands on a line before.")
            found[token] = caller
    if OWNER not in found.values():
        problem = "has no token of the owner's in it: write one on a line of its own, or remove the file"
        raise ConfigError(f"The token file {target} {problem}.")
    return found


def _read_line(line: str, where: str) -> tuple[str, Caller]:
    """The token and its user; a message never shows the line, which is a secret."""
    try:
        ((token, *rest),) = csv.reader([line], strict=True, skipinitialspace=True)
    except (csv.Error, ValueError) as error:
        raise ConfigError(f'{where}: write token,user,uid,"group1,group2".') from error
    if not token or not token.isprintable() or not token.isascii() or " " in token:
        raise ConfigError(f"{where}: that is no token: use printable ASCII without spaces.")
    if not rest:
        return token, OWNER
    user, uid, groups, *more = [*(one.strip() for one in rest), "", "", ""][: max(len(rest), 3)]
    if not user or more:
        raise ConfigError(f'{where}: a user is missing, or there is too much: write token,user,uid,"group1,group2".')
    named = [one.strip() for one in groups.split(",") if one.strip()]
    return token, Caller(user, tuple(dict.fromkeys([*named, AUTHENTICATED])), uid)


def _make(target: Path) -> str:
    token = new_token()
    try:
        write_private(target, f"{token}\n".encode())
    except OSError as error:
        raise ConfigError(f"The token file {target} cannot be written: {error.strerror or error}.") from error
    return token
