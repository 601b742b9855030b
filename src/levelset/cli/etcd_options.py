"""The options of commands that reach etcd: where its keys are, certificates and the user."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from levelset.errors import ConfigError
from levelset.storage import EtcdStorage

__all__ = ["EtcdOptions", "etcd_options"]

F = TypeVar("F", bound=Callable[..., Any])


class EtcdOptions(NamedTuple):
    """How etcd is reached."""

    prefix: str
    cacert: Path | None
    cert: Path | None
    key: Path | None
    user: str | None
    password_file: Path | None

    def storage(self, endpoints: str, *, compaction: float | None) -> EtcdStorage:
        """The storage at these URLs, not started; reads the password file. Raises ConfigError for what is not valid."""
        return EtcdStorage(
            endpoints,
            prefix=self.prefix,
            cacert=self.cacert,
            cert=self.cert,
            key=self.key,
            user=self.user,
            password=self._password(),
            compaction=compaction,
        )

    def arguments(self) -> dict[str, object]:
        """The options of a command that say the same."""
        names = ("--etcd-prefix", "--etcd-cacert", "--etcd-cert", "--etcd-key", "--etcd-user", "--etcd-password-file")
        return dict(zip(names, self, strict=True))

    def _password(self) -> str | None:
        if (self.user is None) != (self.password_file is None):
            raise ConfigError("A user of etcd has a name and a password: pass --etcd-user and --etcd-password-file.")
        if self.password_file is None:
            return None
        try:
            return self.password_file.read_text("utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"The password file {self.password_file} cannot be read: {error}.") from error


def etcd_options(function: F) -> F:
    """Adds the options `--etcd-...`, passed to the function as `access`, an `EtcdOptions`."""
    file = click.Path(path_type=Path)

    @click.option("--etcd-prefix", default="/levelset", show_default=True, help="What the keys in etcd begin with.")
    @click.option("--etcd-cacert", type=file, help="The file with the authority of etcd's certificates.")
    @click.option("--etcd-cert", type=file, help="The client certificate for etcd.")
    @click.option("--etcd-key", type=file, help="The key of the client certificate.")
    @click.option("--etcd-user", help="The user of etcd.")
    @click.option("--etcd-password-file", type=file, help="The file with the password of the user.")
    @functools.wraps(function)
    def command(
        *,
        etcd_prefix: str,
        etcd_cacert: Path | None,
        etcd_cert: Path | None,
        etcd_key: Path | None,
        etcd_user: str | None,
        etcd_password_file: Path | None,
        **others: Any,
    ) -> Any:
        access = EtcdOptions(etcd_prefix, etcd_cacert, etcd_cert, etcd_key, etcd_user, etcd_password_file)
        return function(access=access, **others)

    return command  # type: ignore[return-value]  # click calls it by keywords
