"""The token file: bearer tokens of the administrator and of other users, one per line, created if it does not exist.

A line is a token of the administrator, or a token with its user as in kube-apiserver's static token file:
`token,user,uid,"group1,group2"`, of which uid and groups may be left out.
"""

import csv
import os
import secrets
from pathlib import Path

from levelset.apiserver.authn.users import ADMIN, AUTHENTICATED, User
from levelset.errors import ConfigError
from levelset.http import write_private
from levelset.storage import warn_if_exposed

__all__ = ["load_admin_tokens", "load_users", "new_token", "read_users"]


def new_token() -> str:
    """A random token of 256 bits."""
    return secrets.token_urlsafe(32)


def load_admin_tokens(path: str | os.PathLike[str]) -> list[str]:
    """The administrator's tokens in the file; creates the file with one token if it does not exist.

    Empty lines and lines that begin with `#` are ignored. Raises ConfigError.
    """
    return [token for token, user in load_users(path).items() if user is ADMIN]


def load_users(path: str | os.PathLike[str]) -> dict[str, User]:
    """All tokens in the file with their users; creates the file with one administrator token if it does not exist.

    Raises ConfigError, also for a file without an administrator token.
    """
    target = Path(path)
    if not target.exists():
        return {_create(target): ADMIN}
    found = read_users(target)
    if ADMIN not in found.values():
        problem = "has no administrator token: write one on a line of its own, or delete the file to have it created"
        raise ConfigError(f"The token file {target} {problem}.")
    return found


def read_users(path: str | os.PathLike[str]) -> dict[str, User]:
    """All tokens in an existing file with their users. Raises ConfigError."""
    target = Path(path)
    try:
        text = target.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The token file {target} cannot be read: {error}.") from error
    warn_if_exposed("tokens", target)
    found: dict[str, User] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.strip().startswith("#"):
            token, user = _read_line(line.strip(), f"The token file {target}, line {number}")
            if token in found:
                raise ConfigError(
                    f"The token file {target}, line {number}: the token is a duplicate of an earlier line."
                )
            found[token] = user
    return found


def _read_line(line: str, where: str) -> tuple[str, User]:
    """The token and its user; error messages never show the line, because it is a secret."""
    try:
        ((token, *rest),) = csv.reader([line], strict=True, skipinitialspace=True)
    except (csv.Error, ValueError) as error:
        raise ConfigError(f'{where}: write token,user,uid,"group1,group2".') from error
    if not token or not token.isprintable() or not token.isascii() or " " in token:
        raise ConfigError(f"{where}: invalid token: use printable ASCII without spaces.")
    if not rest:
        return token, ADMIN
    user, uid, groups, *more = [*(one.strip() for one in rest), "", "", ""][: max(len(rest), 3)]
    if not user or more:
        raise ConfigError(
            f'{where}: the user is missing or there are too many fields: write token,user,uid,"group1,group2".'
        )
    named = [one.strip() for one in groups.split(",") if one.strip()]
    return token, User(user, tuple(dict.fromkeys([*named, AUTHENTICATED])), uid)


def _create(target: Path) -> str:
    token = new_token()
    try:
        write_private(target, f"{token}\n".encode())
    except OSError as error:
        raise ConfigError(f"The token file {target} cannot be written: {error.strerror or error}.") from error
    return token
