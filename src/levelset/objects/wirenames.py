"""Names on the wire: `ready_replicas` in Python is `readyReplicas` in JSON, and `pod_ip` is `podIP`."""

import keyword
import re
from typing import Final

from levelset.objects.patterns import Pattern

__all__ = ["python_name", "wire_name"]

# Words that Kubernetes writes in capitals unless they come first. Every field of the built-in kinds follows this
# table; a custom resource that writes `podIp` says so with `field(name="podIp")`.
_CAPITALS: Final = {
    word.lower(): word
    for word in (
        "API", "CIDR", "CIDRs", "CPU", "FQDN", "ID", "IDs", "IO", "IP", "IPC", "IPs", "PID",
        "TLS", "UID", "UIDs", "URI", "URIs", "URL", "URLs", "UUID", "UUIDs", "WWNs",
    )
}  # fmt: skip

# The few names that no rule gives.
_ODD: Final = {"open_api_v3_schema": "openAPIV3Schema"}
_ODD_BACK: Final = {wire: name for name, wire in _ODD.items()}

# Names that Python keeps for itself get an underscore behind them: `continue_`, `from_`, `not_`.
_KEYWORDS: Final = frozenset(keyword.kwlist)

_WORDS: Final = Pattern(
    r"(?:CIDR|ID|IP|UID|URI|URL|UUID|WWN)s(?![a-z])"  # the plurals of capitals: clusterIPs
    r"|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+"
)


def wire_name(name: str) -> str:
    """The JSON name of a Python attribute: `cluster_ips` gives `clusterIPs`, `continue_` gives `continue`."""
    if "_" not in name:  # most of them
        return name
    if name in _ODD:
        return _ODD[name]
    first, *rest = name.strip("_").split("_") if name.strip("_") else [name]
    return first + "".join(_CAPITALS.get(word) or word[:1].upper() + word[1:] for word in rest)


def python_name(wire: str) -> str:
    """The Python attribute for a JSON name: `clusterIPs` gives `cluster_ips`, `continue` gives `continue_`.

    Names with other characters (`$ref`, `x-kubernetes-list-type`) give a usable identifier; whether `wire_name`
    leads back is for the caller to ask.
    """
    if wire in _ODD_BACK:
        return _ODD_BACK[wire]
    words = [word.lower() for part in re.split(r"[^A-Za-z0-9]+", wire) for word in _WORDS.findall(part)]
    name = "_".join(words) or "field"
    if name[0].isdigit():
        name = f"field_{name}"
    return f"{name}_" if name in _KEYWORDS else name
