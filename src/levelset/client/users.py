"""What a user of a kubeconfig means: which credentials to show, and on whose behalf to ask."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from levelset.client.config import Impersonation
from levelset.client.credentials import (
    Anonymous,
    Basic,
    ClientCertificate,
    Credentials,
    Together,
    Token,
    TokenFile,
    check_token,
)
from levelset.client.entries import Entry
from levelset.client.execplugin import ExecPlugin
from levelset.client.execspec import ExecSpec, Interactive
from levelset.errors import ConfigError
from levelset.objects.names import quote
from levelset.objects.trees import is_list

__all__ = ["credentials_of", "impersonation_of"]

_VERSIONS: Final = tuple(f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1"))
_MODES: Final[Mapping[str, Interactive]] = {"Never": "Never", "IfAvailable": "IfAvailable", "Always": "Always"}
_SUCCESSORS: Final = {
    "azure": "kubelogin (`kubelogin convert-kubeconfig`)",
    "gcp": "gke-gcloud-auth-plugin (`gcloud container clusters get-credentials` writes it)",
    "oidc": "kubelogin (`kubectl oidc-login`)",
}


def credentials_of(user: Entry, cluster: Callable[[], Mapping[str, Any]]) -> Credentials:
    """The credentials of a user: a certificate beside the first of token, password and plugin. It blocks.

    `cluster` gives what a plugin is told about the cluster, if it is to be told.
    """
    if user.map("auth-provider") is not None:
        raise _provider(user)
    parts = [part for part in (_certificate(user), _secret(user) or _plugin(user, cluster)) if part is not None]
    if not parts:
        return Anonymous()
    return parts[0] if len(parts) == 1 else Together(*parts)


def impersonation_of(user: Entry) -> Impersonation | None:
    """On whose behalf this user asks; None if it asks for itself."""
    name, uid, groups = user.text("as"), user.text("as-uid"), user.texts("as-groups")
    extra: dict[str, tuple[str, ...]] = {}
    for key, values in (user.map("as-user-extra") or {}).items():
        if not is_list(values) or not all(isinstance(value, str) for value in values):
            raise user.wrong(f"as-user-extra.{key}", "must be a list of texts.")
        extra[key] = tuple(values)
    if name is None:
        if uid or groups or extra:
            raise user.wrong("as", "is missing: as-uid, as-groups and as-user-extra say more about the user it names.")
        return None
    try:
        return Impersonation(user=name, uid=uid, groups=groups, extra=extra)
    except ConfigError as error:
        raise user.wrong("as", f"cannot be used: {error}") from error


def _certificate(user: Entry) -> Credentials | None:
    certificate, key = user.pem("client-certificate"), user.pem("client-key")
    if certificate is None and key is None:
        return None
    if certificate is None:
        raise user.wrong("client-certificate", "is missing: a client-key is of no use without it.")
    if key is None:
        raise user.wrong("client-key", "is missing: a client-certificate is of no use without it.")
    return ClientCertificate(certificate, key)


def _secret(user: Entry) -> Credentials | None:
    token, name = user.text("token"), user.text("username")
    file = user.text("tokenFile")
    if (token or file) and name:
        raise user.wrong("username", "and a token are both there, and a request can show only one: remove one.")
    if token is not None:
        check_token(token, f"token of {user}")
    if file is not None:
        # With a token beside it the file may come later.
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
        raise found.wrong("apiVersion", f"is {quote(version)}: plugins speak {' or '.join(_VERSIONS)}.")
    command = found.text("command")
    if command is None:
        raise found.wrong("command", "is missing: name the program that hands out credentials.")
    mode = found.text("interactiveMode") or "IfAvailable"
    if mode not in _MODES:
        raise found.wrong("interactiveMode", f"is {quote(mode)}: write {', '.join(_MODES)}.")
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
    """A bare name is looked for in PATH; one with a slash is a path relative to the file."""
    return str(file.parent.absolute() / command) if os.sep in command else command


def _environment(found: Entry) -> dict[str, str]:
    environ: dict[str, str] = {}
    for number, item in enumerate(found.maps("env")):
        name, value = item.get("name"), item.get("value")
        if not isinstance(name, str) or not name or "=" in name or not isinstance(value, str | None):
            raise found.wrong(f"env[{number}]", "must have a name and a value that are texts: put them in quotes.")
        environ[name] = value or ""
    return environ


def _provider(user: Entry) -> ConfigError:
    found = user.part("auth-provider")
    name = found.text("name") if found is not None else None
    successor = _SUCCESSORS.get(name or "", "the plugin of your provider")
    return user.wrong(
        "auth-provider", f"({quote(name)}) is gone from Kubernetes since 1.26: write an exec entry for {successor}."
    )
