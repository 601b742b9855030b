"""What an exec plugin is told and what it answers: the pure half of asking a program for credentials.

A plugin is a program that a kubeconfig names. It is told about the cluster in the variable `KUBERNETES_EXEC_INFO`, and
prints an `ExecCredential` with a token, a client certificate, or both.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from levelset.client.credentials import bearer, check_token
from levelset.errors import BadObject, BadTime, ConfigError
from levelset.objects.times import parse_time
from levelset.objects.trees import is_map
from levelset.web.identities import Identity

__all__ = ["ExecCredential", "ExecSpec", "Interactive", "exec_info", "parse_credential"]

Interactive = Literal["Never", "IfAvailable", "Always"]
"""Whether a plugin may ask the person at the terminal something."""

_decode: Final = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExecSpec:
    """Which program to run, how, and for whom: `owner` names the user of the kubeconfig in messages.

    `cluster` is what the plugin is told about the cluster, None if it is to be told nothing.
    """

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    api_version: str = "client.authentication.k8s.io/v1"
    interactive: Interactive = "IfAvailable"
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None
    owner: str = "this user"

    def __repr__(self) -> str:
        # Not the arguments and the environment: some people put secrets there.
        return f"ExecSpec({self.command!r})"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExecCredential:
    """What a plugin answered: headers and certificate, and until when they hold, if it said."""

    headers: Mapping[str, str]
    identity: Identity | None
    expires: datetime | None

    def __repr__(self) -> str:
        return f"ExecCredential(expires={self.expires})"


def exec_info(spec: ExecSpec, *, is_interactive: bool) -> str:
    """The value of `KUBERNETES_EXEC_INFO`."""
    told: dict[str, Any] = {"interactive": is_interactive}
    if spec.cluster is not None:
        told["cluster"] = dict(spec.cluster)
    return json.dumps({"kind": "ExecCredential", "apiVersion": spec.api_version, "spec": told})


def parse_credential(output: bytes, spec: ExecSpec) -> ExecCredential:
    """What the plugin printed, as JSON or YAML; ConfigError, which never shows it, if that is no credential."""
    tree = _tree(output)
    if not is_map(tree):
        raise _refused(spec, "printed no ExecCredential: neither JSON nor YAML. Run it by hand and look")
    for name, wanted in (("kind", "ExecCredential"), ("apiVersion", spec.api_version)):
        if tree.get(name) != wanted:
            raise _refused(spec, f"printed something whose {name} is not {wanted}: set the one that it speaks")
    status = tree.get("status")
    if not is_map(status):
        raise _refused(spec, "printed an ExecCredential without status: is somebody logged in")
    token = _text(status, "token", spec)
    headers: Mapping[str, str] = {}
    if token is not None:
        check_token(token, f"The token that the plugin {spec.command!r} of {spec.owner} printed")
        headers = bearer(token)
    identity = _identity(status, spec)
    if identity is None and not headers:
        raise _refused(spec, "printed neither a token nor a client certificate: is somebody logged in")
    return ExecCredential(headers=headers, identity=identity, expires=_expiry(status, spec))


def _tree(output: bytes) -> Any:
    try:
        return _decode.decode(output)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    # yaml takes a while to load, and nearly all plugins print JSON.
    from levelset.objects.yamltext import read_yaml  # noqa: PLC0415

    try:
        documents = read_yaml(output)
    except BadObject:
        return None
    return documents[0] if len(documents) == 1 else None


def _identity(status: dict[str, Any], spec: ExecSpec) -> Identity | None:
    certificate = _text(status, "clientCertificateData", spec)
    key = _text(status, "clientKeyData", spec)
    if (certificate is None) != (key is None):
        raise _refused(spec, "printed one of clientCertificateData and clientKeyData: it takes both, or neither")
    return None if certificate is None or key is None else Identity(certificate.encode(), key.encode())


def _expiry(status: dict[str, Any], spec: ExecSpec) -> datetime | None:
    text = _text(status, "expirationTimestamp", spec)
    try:
        return None if text is None else parse_time(text)
    except BadTime as error:
        raise _refused(spec, "printed an expirationTimestamp that is no RFC 3339 time") from error


def _text(status: dict[str, Any], name: str, spec: ExecSpec) -> str | None:
    value = status.get(name)
    if value is not None and not isinstance(value, str):
        raise _refused(spec, f"printed a status.{name} that is no text")
    return value or None


def _refused(spec: ExecSpec, problem: str) -> ConfigError:
    return ConfigError(f"The plugin {spec.command!r} of {spec.owner} {problem}.")
