"""The settings of an agent, read from the environment that the operator sets in the Deployment."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from levelset.errors import ConfigError

__all__ = ["PROMPTS", "TOOLS", "Settings", "parse_duration", "read_settings"]

PROMPTS: Final = "/etc/omnia/prompts"
TOOLS: Final = "/etc/omnia/tools"
_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0}
_ALL_INTERFACES: Final = "0.0.0.0"  # noqa: S104 - in a cluster's pod, where clients must reach it


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one agent; paths are those of this machine."""

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
    """The URL that resolves Service names where there is no cluster DNS; empty for none."""

    def __repr__(self) -> str:
        # The generated repr would put the key into logs.
        return f"<Settings of {self.namespace}/{self.name}>"


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Reads the settings; raises ConfigError with the variable that is missing or invalid."""
    for name in ("OMNIA_AGENT_NAME", "OMNIA_NAMESPACE"):
        if not environment.get(name):
            raise ConfigError(f"{name}: not set; the operator sets it in the Deployment")
    facade = environment.get("OMNIA_FACADE_TYPE", "websocket")
    if facade != "websocket":
        raise ConfigError(f"OMNIA_FACADE_TYPE {facade!r}: this agent serves websocket only; choose that in spec.facade")
    session = environment.get("OMNIA_SESSION_TYPE", "memory")
    if session != "memory":
        raise ConfigError(f"OMNIA_SESSION_TYPE {session!r}: this agent stores sessions in memory only")
    provider = environment.get("OMNIA_PROVIDER_TYPE", "mock")
    if provider != "mock":
        raise ConfigError(f"OMNIA_PROVIDER_TYPE {provider!r}: this agent supports the provider mock only")
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
        session_ttl=parse_duration("OMNIA_SESSION_TTL", environment.get("OMNIA_SESSION_TTL", "24h")),
        resolver=environment.get("LEVELSET_RESOLVER", ""),
    )


def parse_duration(field: str, text: str) -> float:
    """The seconds of a duration such as `90s` or `1h30m`; raises ConfigError with the field."""
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
    raise ConfigError(f"{field} {text!r}: write a duration such as 90s or 1h30m")


def _host(environment: Mapping[str, str]) -> str:
    """The address to listen on: as configured, the Pod's IP, all interfaces in a cluster, else loopback."""
    configured = environment.get("OMNIA_FACADE_HOST") or environment.get("POD_IP")
    if configured:
        return configured
    return _ALL_INTERFACES if "KUBERNETES_SERVICE_HOST" in environment else "127.0.0.1"


def _port(field: str, text: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise ConfigError(f"{field} {text!r}: a port is a number from 1 to 65535")
    return int(text)


def _folder(path: str, root: str) -> Path:
    """The path on this machine of a path in the Pod: below `root`, unless it already is."""
    if not root or path.startswith(root):
        return Path(path)
    return Path(root) / path.lstrip("/")
