"""Finds the config that is meant: the file that was named, `KUBECONFIG`, the pod this runs in, or `~/.kube/config`."""

import os
from collections.abc import Mapping
from pathlib import Path

from levelset.client.config.config import Config
from levelset.client.config.in_cluster import SERVICE_ACCOUNT, in_cluster, is_in_cluster
from levelset.client.config.kubeconfig import Kubeconfig, config_of, merge_kubeconfigs, read_kubeconfig
from levelset.errors import ConfigError

__all__ = ["load_config"]


def load_config(
    path: str | os.PathLike[str] | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> Config:
    """The config of the first place that has one; ConfigError says where it looked and what is wrong there.

    A context can only be one of a file, so that whoever names one does not get the config of the pod. It reads files,
    so a coroutine calls it with `asyncio.to_thread`.
    """
    variables = os.environ if environ is None else environ
    if path is not None:
        return config_of(_read_all([_expanded(os.fspath(path))], "The kubeconfig that was named"), context)
    listed = [_expanded(one) for one in variables.get("KUBECONFIG", "").split(os.pathsep) if one]
    if listed:
        return config_of(_read_all(listed, "KUBECONFIG"), context)
    if context is None and is_in_cluster(variables):
        return in_cluster(variables, service_account)
    usual = (home or Path("~").expanduser()) / ".kube" / "config"
    try:
        return config_of(read_kubeconfig(usual), context)
    except FileNotFoundError:
        raise ConfigError(
            f"No cluster is configured: KUBECONFIG is not set, this is no pod, and there is no {usual}."
            " Name a kubeconfig, or start a cluster of your own with `levelset serve`."
        ) from None


def _read_all(files: list[Path], named_by: str) -> Kubeconfig:
    """All files that are there, merged; ConfigError if none is, since somebody meant one of them."""
    found: list[Kubeconfig] = []
    for file in dict.fromkeys(files):
        try:
            found.append(read_kubeconfig(file))
        except FileNotFoundError:
            continue  # as kubectl does: a list may name files that come and go
    if not found:
        names = ", ".join(str(file) for file in files)
        way = ", or unset it" if named_by == "KUBECONFIG" else ""
        raise ConfigError(f"{named_by} is not there: {names}. Correct the path{way}.")
    return merge_kubeconfigs(found)


def _expanded(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:  # no such user
        return Path(text)
