"""What an agent is told by its environment, as the operator writes it into the Deployment."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from levelset.errors import ConfigError

__all__ = ["PROMPTS", "TOOLS", "Settings", "read_settings", "read_span"]

PROMPTS: Final = "/etc/omnia/prompts"
TOOLS: Final = "/etc/omnia/tools"
_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0}
_EVERYWHERE: Final = "0.0.0.0"  # noqa: S104 - inside of a cluster's pod, where others must reach it


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One agent's settings; folders are where they are on this machine."""

    name: str
    namespace: str
    pack: str = ""
    version: str = ""
    host: str = "127.0.0.1"
    port: int = 8080
    health_port: int | None = None
    prompts: Path = Path(PROMPTS)
    tools: Path = Path(TOOLS)
    provider: str = "mock"
    key: str = ""
    session_ttl: float = 24 * 3600.0
    resolver: str = ""
    """Where names of a cluster are looked up if this machine does not know them; nowhere if empty."""

    def __repr__(self) -> str:
        # The generated one would put the key into logs.
        return f"<Settings of {self.namespace}/{self.name}>"


def read_settings(environment: Mapping[str, str]) -> Settings:
    """The settings that an environment gives; ConfigError names the variable that is missing or wrong."""
    for name in ("OMNIA_AGENT_NAME", "OMNIA_NAMESPACE"):
        if not environment.get(name):
            raise ConfigError(f"{name}: an agent must be told it; the operator sets it in the Deployment")
    facade = environment.get("OMNIA_FACADE_TYPE", "websocket")
    if facade != "websocket":
        raise ConfigError(f"OMNIA_FACADE_TYPE {facade!r}: this agent serves websocket only; choose that in spec.facade")
    session = environment.get("OMNIA_SESSION_TYPE", "memory")
    if session != "memory":
        raise ConfigError(f"OMNIA_SESSION_TYPE {session!r}: this agent keeps sessions in memory only")
    provider = environment.get("OMNIA_PROVIDER_TYPE", "mock")
    if provider != "mock":
        raise ConfigError(f"OMNIA_PROVIDER_TYPE {provider!r}: this agent has the provider mock only")
    health = environment.get("OMNIA_HEALTH_PORT")
    root = environment.get("LEVELSET_MOUNT_ROOT", "")
    return Settings(
        name=environment["OMNIA_AGENT_NAME"],
        namespace=environment["OMNIA_NAMESPACE"],
        pack=environment.get("OMNIA_PROMPTPACK_NAME", ""),
        version=environment.get("OMNIA_PROMPTPACK_VERSION", ""),
        host=_host(environment),
        port=_port("OMNIA_FACADE_PORT", environment.get("OMNIA_FACADE_PORT", "8080")),
        health_port=_port("OMNIA_HEALTH_PORT", health) if health else None,
        prompts=_folder(environment.get("OMNIA_PROMPTS_PATH", PROMPTS), root),
        tools=_folder(environment.get("OMNIA_TOOLS_PATH", TOOLS), root),
        provider=provider,
        key=environment.get("OMNIA_PROVIDER_API_KEY", ""),
        session_ttl=read_span("OMNIA_SESSION_TTL", environment.get("OMNIA_SESSION_TTL", "24h")),
        resolver=environment.get("LEVELSET_RESOLVER", ""),
    )


def read_span(field: str, text: str) -> float:
    """A span of time such as `90s` or `1h30m`, in seconds; ConfigError names the field."""
    seconds, digits = 0.0, ""
    for letter in text:
        if letter.isdigit() or letter == ".":
            digits += letter
        elif letter in _UNITS and digits not in ("", "."):
            seconds, digits = seconds + float(digits) * _UNITS[letter], ""
        else:
            break
    else:
        if text and not digits:
            return seconds
    raise ConfigError(f"{field} {text!r}: give a span of time such as 90s or 1h30m")


def _host(environment: Mapping[str, str]) -> str:
    """Where to listen: what is said, the address of the pod, everywhere in a cluster, and otherwise on loopback."""
    said = environment.get("OMNIA_FACADE_HOST") or environment.get("POD_IP")
    if said:
        return said
    return _EVERYWHERE if "KUBERNETES_SERVICE_HOST" in environment else "127.0.0.1"


def _port(field: str, text: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise ConfigError(f"{field} {text!r}: a port is a number from 1 to 65535")
    return int(text)


def _folder(path: str, root: str) -> Path:
    """A path of the pod, where it is on this machine: below `root` if it is not already there."""
    if not root or path.startswith(root):
        return Path(path)
    return Path(root) / path.lstrip("/")
