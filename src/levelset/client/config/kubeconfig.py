"""Kubeconfig files: read one, merge several, and turn a context into a `Config`.

Files are merged as kubectl merges them: the first file that defines a cluster, user or context wins, and so does the
first `current-context`. Paths are relative to their file. Unknown keys are ignored; an invalid value raises a
ConfigError that names file, entry and field, and shows no secret. A field is checked when it is read, so that an entry
that is not used cannot fail.
"""

import base64
import binascii
import codecs
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from levelset.client.config.config import Config, Impersonation
from levelset.client.config.credentials import (
    Anonymous,
    Basic,
    ClientCertificate,
    CombinedCredentials,
    Credentials,
    Token,
    TokenFile,
    check_token,
)
from levelset.errors import BadObject, ConfigError
from levelset.objects.json_tree import is_list, is_map
from levelset.objects.names import quote

if TYPE_CHECKING:
    from levelset.client.config.exec_plugin import Interactive

__all__ = [
    "Entry",
    "Kubeconfig",
    "config_of",
    "credentials_of",
    "describe_type",
    "impersonation_of",
    "merge_kubeconfigs",
    "parse_kubeconfig",
    "read_kubeconfig",
]


class Entry(msgspec.Struct, frozen=True):
    """One cluster, user or context: its fields, and the file that defines it."""

    kind: str
    name: str
    file: Path
    tree: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.kind} {quote(self.name)} in {self.file}"

    def __repr__(self) -> str:
        # Without its fields: they may be secret.
        return f"Entry({self})"

    def error(self, field: str, problem: str) -> ConfigError:
        """The error for an invalid field."""
        return ConfigError(f"{field} of {self} {problem}")

    def text(self, field: str) -> str | None:
        """A string field; None if it is missing or empty."""
        value = self.tree.get(field)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise self.error(field, f"must be a string, not {describe_type(value)}: put it in quotes.")
        return value

    def flag(self, field: str) -> bool:
        """A boolean field; False if it is missing."""
        value = self.tree.get(field)
        if value is not None and not isinstance(value, bool):
            raise self.error(field, f"must be true or false, not {describe_type(value)}.")
        return bool(value)

    def texts(self, field: str) -> tuple[str, ...]:
        """A field that is a list of strings."""
        value: Any = self.tree.get(field)
        if value is None:
            return ()
        if not is_list(value) or not all(isinstance(one, str) for one in value):
            raise self.error(field, "must be a list of strings: write each in quotes, on a line with a dash.")
        return tuple(value)

    def map(self, field: str) -> dict[str, Any] | None:
        """A field that is a mapping; None if it is missing."""
        value = self.tree.get(field)
        if value is not None and not is_map(value):
            raise self.error(field, f"must be a mapping, not {describe_type(value)}.")
        return value

    def maps(self, field: str) -> list[dict[str, Any]]:
        """A field that is a list of mappings."""
        value: Any = self.tree.get(field)
        if value is None:
            return []
        if not is_list(value) or not all(is_map(one) for one in value):
            raise self.error(field, "must be a list of mappings.")
        return list(value)

    def part(self, field: str) -> "Entry | None":
        """A field that is a mapping, as an Entry."""
        tree = self.map(field)
        return None if tree is None else Entry(f"{field} of {self.kind}", self.name, self.file, tree)

    def path(self, field: str) -> Path | None:
        """A field that is a path, relative to the file; the file it names must be readable."""
        text = self.text(field)
        if text is None:
            return None
        path = self.file.parent / text
        try:
            with path.open("rb"):
                return path
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            reason = getattr(error, "strerror", None) or error
            raise self.error(field, f"is {quote(text)}, which cannot be read: {reason}. Correct the path.") from error

    def data(self, field: str) -> bytes | None:
        """A base64 field, decoded."""
        text = self.text(field)
        if text is None:
            return None
        try:
            # As Go decodes it: newlines are ignored, other characters outside of base64 are an error.
            return base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
        except (binascii.Error, ValueError):
            # Without the cause: it could show part of a key.
            raise self.error(field, "is not base64: encode the file again, with `base64 -w0 FILE`.") from None

    def pem(self, field: str) -> bytes | Path | None:
        """PEM in the field whose name ends in `-data`, or else the path of a file with it."""
        data = self.data(f"{field}-data")
        if data is None:
            return self.path(field)
        if b"-----BEGIN " not in data:
            raise self.error(
                f"{field}-data", "is base64, but not of a PEM file (-----BEGIN ...): encode the right file."
            )
        return data


def describe_type(value: Any) -> str:
    """The type of a value for a message, without the value, which may be secret."""
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "a list" if is_list(value) else "a mapping" if is_map(value) else "nothing"


_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SECTIONS: Final = {"clusters": "cluster", "users": "user", "contexts": "context"}


class Kubeconfig(msgspec.Struct, frozen=True):
    """The content of one file, or of several merged ones."""

    files: tuple[Path, ...]
    clusters: Mapping[str, Entry]
    users: Mapping[str, Entry]
    contexts: Mapping[str, Entry]
    current: str | None = None

    def context(self, name: str | None = None) -> Entry:
        """The context of this name, or the current one."""
        where = self.where
        chosen = name or self.current
        if chosen is None:
            raise ConfigError(f"{where} has no current-context: choose a context, one of {_names(self.contexts)}.")
        return _pick(self.contexts, chosen, f"{where} has no context", "Choose one of")

    def cluster(self, context: Entry) -> Entry:
        """The cluster of a context."""
        name = context.text("cluster")
        if name is None:
            raise context.error("cluster", f"is missing: name one of {_names(self.clusters)}.")
        return _pick(self.clusters, name, f"The {context} names a cluster that is not defined,", "Defined:")

    def user(self, context: Entry) -> Entry | None:
        """The user of a context; None if it names none: requests are anonymous."""
        name = context.text("user")
        if name is None:
            return None
        return _pick(self.users, name, f"The {context} names a user that is not defined,", "Defined:")

    @property
    def where(self) -> str:
        """The files, for a message."""
        return ", ".join(str(file) for file in self.files) or "The kubeconfig"


def read_kubeconfig(file: Path) -> Kubeconfig:
    """Reads one file; FileNotFoundError if it does not exist, ConfigError if it is not a kubeconfig. Blocking."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"The kubeconfig {file} cannot be read: {reason}. Correct the path or its permissions."
        ) from error
    return parse_kubeconfig(content, file)


def parse_kubeconfig(text: bytes, file: Path) -> Kubeconfig:
    """Parses the content of a file; several YAML documents are merged like several files."""
    # Imported late: yaml is slow to load, and not needed in a cluster or in tests.
    from levelset.objects.yaml_codec import read_yaml  # noqa: PLC0415

    decoded = _decode(text, file)
    try:
        documents = read_yaml(decoded)
    except BadObject as error:
        line = decoded.count("\n", 0, error.position or 0) + 1
        # Without the cause: it could show an unquoted password.
        raise ConfigError(
            f"{file} is not valid YAML from line {line} on. Check there for a duplicate key, a tab, a wrong indent, or"
            " a string that needs quotes."
        ) from None
    found = [_document(tree, file) for tree in documents if tree is not None]
    return merge_kubeconfigs(found) if found else Kubeconfig((file,), {}, {}, {})


def merge_kubeconfigs(parts: Iterable[Kubeconfig]) -> Kubeconfig:
    """Merges kubeconfigs; the first that defines an entry wins."""
    first_to_last = list(parts)
    last_to_first = first_to_last[::-1]
    return Kubeconfig(
        files=tuple(dict.fromkeys(file for part in first_to_last for file in part.files)),
        clusters={name: entry for part in last_to_first for name, entry in part.clusters.items()},
        users={name: entry for part in last_to_first for name, entry in part.users.items()},
        contexts={name: entry for part in last_to_first for name, entry in part.contexts.items()},
        current=next((part.current for part in first_to_last if part.current), None),
    )


def _decode(text: bytes, file: Path) -> str:
    """The text of a file, which may begin with a byte order mark or be UTF-16, as some editors write it."""
    try:
        return text.decode("utf-16" if text.startswith(_UTF16) else "utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is not a kubeconfig: it is not text. Save it as UTF-8.") from None


def _document(tree: Any, file: Path) -> Kubeconfig:
    if not is_map(tree):
        raise ConfigError(f"{file} is not a kubeconfig: it is {describe_type(tree)}, without clusters and contexts.")
    for field, wanted in (("kind", "Config"), ("apiVersion", "v1")):
        value = tree.get(field)
        if value is not None and value not in ("", wanted):
            raise ConfigError(f"{file} is not a kubeconfig: its {field} is {quote(value)} and must be {wanted}.")
    current = tree.get("current-context")
    if current is not None and not isinstance(current, str):
        raise ConfigError(f"current-context in {file} must be a string, not {describe_type(current)}: quote it.")
    sections = {section: _entries(tree.get(section), section, file) for section in _SECTIONS}
    return Kubeconfig((file,), sections["clusters"], sections["users"], sections["contexts"], current or None)


def _entries(items: Any, section: str, file: Path) -> dict[str, Entry]:
    kind = _SECTIONS[section]
    if items is None:
        return {}
    if not is_list(items):
        raise ConfigError(f"{section} in {file} must be a list, not {describe_type(items)}.")
    found: dict[str, Entry] = {}
    for number, item in enumerate(items):
        name = item.get("name") if is_map(item) else None
        if not is_map(item) or not isinstance(name, str) or not name:
            raise ConfigError(f"{section}[{number}] in {file} has no name: give it a string.")
        if name in found:
            raise ConfigError(f"{file} has two entries {quote(name)} in {section}: remove or rename one.")
        tree = item.get(kind)
        if tree is not None and not is_map(tree):
            raise ConfigError(f"{kind} of {section}[{number}] ({quote(name)}) in {file} must be a mapping.")
        found[name] = Entry(kind, name, file, tree or {})
    return found


def _pick(entries: Mapping[str, Entry], name: str, problem: str, advice: str) -> Entry:
    if name not in entries:
        raise ConfigError(f"{problem} {quote(name)}. {advice} {_names(entries)}.")
    return entries[name]


def _names(entries: Mapping[str, Entry]) -> str:
    names = [quote(name) for name in sorted(entries)]
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(names[:10]) + more if names else "(none)"


_VERSIONS: Final = tuple(f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1"))
_MODES: Final["Mapping[str, Interactive]"] = {"Never": "Never", "IfAvailable": "IfAvailable", "Always": "Always"}
_SUCCESSORS: Final = {
    "azure": "kubelogin (`kubelogin convert-kubeconfig`)",
    "gcp": "gke-gcloud-auth-plugin (`gcloud container clusters get-credentials` writes it)",
    "oidc": "kubelogin (`kubectl oidc-login`)",
}


def credentials_of(user: Entry, cluster: Callable[[], Mapping[str, Any]]) -> Credentials:
    """The credentials of a user: a client certificate, and the first of token, password and exec plugin. Blocking.

    `cluster` returns the cluster info for an exec plugin with `provideClusterInfo`.
    """
    if user.map("auth-provider") is not None:
        raise _provider(user)
    parts = [part for part in (_certificate(user), _secret(user) or _plugin(user, cluster)) if part is not None]
    if not parts:
        return Anonymous()
    return parts[0] if len(parts) == 1 else CombinedCredentials(*parts)


def impersonation_of(user: Entry) -> Impersonation | None:
    """The user that this user impersonates; None if it does not."""
    name, uid, groups = user.text("as"), user.text("as-uid"), user.texts("as-groups")
    extra: dict[str, tuple[str, ...]] = {}
    for key, values in (user.map("as-user-extra") or {}).items():
        if not is_list(values) or not all(isinstance(value, str) for value in values):
            raise user.error(f"as-user-extra.{key}", "must be a list of strings.")
        extra[key] = tuple(values)
    if name is None:
        if uid or groups or extra:
            raise user.error("as", "is missing: as-uid, as-groups and as-user-extra need it.")
        return None
    try:
        return Impersonation(user=name, uid=uid, groups=groups, extra=extra)
    except ConfigError as error:
        raise user.error("as", f"cannot be used: {error}") from error


def _certificate(user: Entry) -> Credentials | None:
    certificate, key = user.pem("client-certificate"), user.pem("client-key")
    if certificate is None and key is None:
        return None
    if certificate is None:
        raise user.error("client-certificate", "is missing: client-key needs it.")
    if key is None:
        raise user.error("client-key", "is missing: client-certificate needs it.")
    return ClientCertificate(certificate, key)


def _secret(user: Entry) -> Credentials | None:
    token, name = user.text("token"), user.text("username")
    file = user.text("tokenFile")
    if (token or file) and name:
        raise user.error("username", "and a token are both set, and a request can carry only one: remove one.")
    if token is not None:
        check_token(token, f"token of {user}")
    if file is not None:
        # With a token as fallback the file may not exist yet.
        path = user.path("tokenFile") if token is None else user.file.parent / file
        return TokenFile(path or Path(file), fallback=token)
    if token is not None:
        return Token(token)
    return None if name is None else Basic(name, user.text("password") or "")


def _plugin(user: Entry, cluster: Callable[[], Mapping[str, Any]]) -> Credentials | None:
    found = user.part("exec")
    if found is None:
        return None
    version = found.text("apiVersion")
    if version not in _VERSIONS:
        raise found.error("apiVersion", f"is {quote(version)}: it must be {' or '.join(_VERSIONS)}.")
    command = found.text("command")
    if command is None:
        raise found.error("command", "is missing: name the credential plugin to run.")
    mode = found.text("interactiveMode") or "IfAvailable"
    if mode not in _MODES:
        raise found.error("interactiveMode", f"is {quote(mode)}: it must be one of {', '.join(_MODES)}.")
    from levelset.client.config.exec_plugin import ExecPlugin, ExecSpec  # noqa: PLC0415  # few clusters need a plugin

    spec = ExecSpec(
        command=_program(command, user.file),
        args=found.texts("args"),
        env=_environment(found),
        api_version=version,
        interactive=_MODES[mode],
        install_hint=found.text("installHint") or "",
        cluster=cluster() if found.flag("provideClusterInfo") else None,
        owner=str(user),
    )
    return ExecPlugin(spec)


def _program(command: str, file: Path) -> str:
    """A bare name is searched in PATH; one with a slash is a path relative to the file."""
    return str(file.parent.absolute() / command) if os.sep in command else command


def _environment(found: Entry) -> dict[str, str]:
    environ: dict[str, str] = {}
    for number, item in enumerate(found.maps("env")):
        name, value = item.get("name"), item.get("value")
        if not isinstance(name, str) or not name or "=" in name or not isinstance(value, str | None):
            raise found.error(f"env[{number}]", "must have a name and a value that are strings: put them in quotes.")
        environ[name] = value or ""
    return environ


def _provider(user: Entry) -> ConfigError:
    found = user.part("auth-provider")
    name = found.text("name") if found is not None else None
    successor = _SUCCESSORS.get(name or "", "the plugin of your provider")
    return user.error(
        "auth-provider", f"({quote(name)}) was removed in Kubernetes 1.26: write an exec entry for {successor}."
    )


_EXTENSION: Final = "client.authentication.k8s.io/exec"
_SERVERS: Final = "levelset.dev/servers"


def config_of(kubeconfig: Kubeconfig, context: str | None = None) -> Config:
    """The config of a context, by default of the current one; ConfigError names the file, entry and field.

    Blocking: checks that the files of the context are readable.
    """
    chosen = kubeconfig.context(context)
    cluster = kubeconfig.cluster(chosen)
    user = kubeconfig.user(chosen)
    authority = cluster.pem("certificate-authority")
    try:
        return Config(
            server=_server(cluster),
            servers=_servers(cluster),
            namespace=chosen.text("namespace") or "default",
            ca=authority if isinstance(authority, bytes) else None,
            ca_file=authority if isinstance(authority, Path) else None,
            insecure=cluster.flag("insecure-skip-tls-verify"),
            tls_server_name=cluster.text("tls-server-name"),
            proxy=cluster.text("proxy-url"),
            credentials=Anonymous() if user is None else credentials_of(user, lambda: _exec_info(cluster, authority)),
            impersonate=None if user is None else impersonation_of(user),
            source=str(chosen),
        )
    except ConfigError as error:
        raise _with_entry(error, cluster, user) from error


def _server(cluster: Entry) -> str:
    server = cluster.text("server")
    if server is None:
        raise cluster.error("server", "is missing: write the URL of the API server, https://HOST:PORT.")
    if "://" in server:
        return server
    # As kubectl reads a bare HOST:PORT: https only if the cluster has a TLS setting.
    names = ("certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify", "tls-server-name")
    return f"{'https' if any(cluster.tree.get(name) for name in names) else 'http'}://{server}"


def _servers(cluster: Entry) -> tuple[str, ...]:
    """The further servers of a cluster, which `levelset serve --server` writes."""
    for one in cluster.maps("extensions"):
        extension: Any = one.get("extension")
        if one.get("name") == _SERVERS and is_map(extension):
            return Entry(f"extension {_SERVERS} of cluster", cluster.name, cluster.file, extension).texts("servers")
    return ()


def _exec_info(cluster: Entry, authority: bytes | Path | None) -> dict[str, Any]:
    """The cluster info for an exec plugin (`spec.cluster` of ExecCredential)."""
    pem = authority.read_bytes() if isinstance(authority, Path) else authority
    info: dict[str, Any] = {
        "server": _server(cluster),
        "tls-server-name": cluster.text("tls-server-name"),
        "insecure-skip-tls-verify": cluster.flag("insecure-skip-tls-verify") or None,
        "certificate-authority-data": None if pem is None else base64.b64encode(pem).decode("ascii"),
        "proxy-url": cluster.text("proxy-url"),
        "disable-compression": cluster.flag("disable-compression") or None,
        "config": next(
            (one.get("extension") for one in cluster.maps("extensions") if one.get("name") == _EXTENSION), None
        ),
    }
    return {name: value for name, value in info.items() if value is not None}


def _with_entry(error: ConfigError, cluster: Entry, user: Entry | None) -> ConfigError:
    """Adds the cluster entry to an error of Config, which does not know the file."""
    text = str(error)
    if str(cluster) in text or (user is not None and str(user) in text):
        return error
    return ConfigError(f"{cluster}: {text}")
