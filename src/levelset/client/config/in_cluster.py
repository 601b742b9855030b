"""The in-cluster config: the environment and the service account files that the kubelet gives a pod."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from levelset.client.config.config import Config
from levelset.client.config.credentials import TokenFile
from levelset.errors import ConfigError

__all__ = ["SERVICE_ACCOUNT", "in_cluster", "is_in_cluster"]

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its service account token, the cluster's CA certificate and its namespace."""


def is_in_cluster(environ: Mapping[str, str] | None = None) -> bool:
    """Whether this process runs in a pod: the environment has the address of the API server."""
    found = os.environ if environ is None else environ
    return bool(found.get("KUBERNETES_SERVICE_HOST") and found.get("KUBERNETES_SERVICE_PORT"))


def in_cluster(environ: Mapping[str, str] | None = None, folder: Path = SERVICE_ACCOUNT) -> Config:
    """The config of a pod; ConfigError outside of one, or if the pod has no service account. Blocking: reads files.

    The token file is read again every minute, because the kubelet renews the token before it expires; the CA
    certificate stays a file for the same reason.
    """
    if not is_in_cluster(environ):
        raise ConfigError(
            "This is not a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set. Use a kubeconfig."
        )
    found = os.environ if environ is None else environ
    for name in ("token", "ca.crt"):
        _check(folder / name)
    return Config(
        server=_url(found["KUBERNETES_SERVICE_HOST"].strip(), found["KUBERNETES_SERVICE_PORT"].strip()),
        namespace=_namespace(folder / "namespace"),
        ca_file=folder / "ca.crt",
        credentials=TokenFile(folder / "token"),
        source=f"the service account in {folder}",
    )


def _check(file: Path) -> None:
    try:
        with file.open("rb"):
            return
    except OSError as error:
        raise ConfigError(
            f"This pod cannot read {file} ({error.strerror or error}): give it a service account, and remove"
            " automountServiceAccountToken: false."
        ) from error


def _url(host: str, port: str) -> str:
    is_ipv6 = ":" in host and not host.startswith("[")
    shown = f"[{host}]" if is_ipv6 else host
    return f"https://{shown}" if port == "443" else f"https://{shown}:{port}"


def _namespace(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip() or "default"
    except OSError:
        return "default"
