"""Finds the client config: a given kubeconfig, `KUBECONFIG`, the in-cluster config, or `~/.kube/config`."""

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
    """Loads the config from the first source that exists; ConfigError says what was tried and what is wrong.

    With `context` the in-cluster config is skipped, since only kubeconfigs have contexts. Reads files: call it with
    `asyncio.to_thread` in a coroutine.
    """
    variables = os.environ if environ is None else environ
    if path is not None:
        return config_of(_read_all([_expanded(os.fspath(path))], "The given kubeconfig"), context)
    listed = [_expanded(one) for one in variables.get("KUBECONFIG", "").split(os.pathsep) if one]
    if listed:
        return config_of(_read_all(listed, "KUBECONFIG"), context)
    if context is None and is_in_cluster(variables):
        return in_cluster(variables, service_account)
    default = (home or Path("~").expanduser()) / ".kube" / "config"
    try:
        return config_of(read_kubeconfig(default), context)
    except FileNotFoundError:
        raise ConfigError(
            f"No cluster is configured: KUBECONFIG is not set, this is not a pod, and {default} does not exist."
            " Give a kubeconfig, or start a server of your own with `levelset serve`."
        ) from None


def _read_all(files: list[Path], named_by: str) -> Kubeconfig:
    """Merges all files that exist; ConfigError if none does."""
    found: list[Kubeconfig] = []
    for file in dict.fromkeys(files):
        try:
            found.append(read_kubeconfig(file))
        except FileNotFoundError:
            continue  # as kubectl does: KUBECONFIG may list files that do not exist
    if not found:
        names = ", ".join(str(file) for file in files)
        way = ", or unset it" if named_by == "KUBECONFIG" else ""
        raise ConfigError(f"{named_by} does not exist: {names}. Correct the path{way}.")
    return merge_kubeconfigs(found)


def _expanded(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:  # no such user
        return Path(text)
