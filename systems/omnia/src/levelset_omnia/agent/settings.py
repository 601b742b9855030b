"""The settings of an agent, read from the environment that the operator sets in the Deployment."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from levelset.errors import ConfigError

__all__ = ["PROMPTS", "TOOLS", "ProviderSettings", "SessionSettings", "Settings", "parse_duration", "read_settings"]

PROMPTS: Final = "/etc/omnia/prompts"
TOOLS: Final = "/etc/omnia/tools"
_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0}
_ALL_INTERFACES: Final = "0.0.0.0"  # noqa: S104 - in a cluster's pod, where clients must reach it


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """The model provider."""

    type: str = "mock"
    model: str = ""
    base_url: str = ""
    key: str = ""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None

    def __repr__(self) -> str:
        # The generated repr would put the key into logs.
        return f"<ProviderSettings {self.type} {self.model}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """Where conversations are stored, and for how many seconds after their last message."""

    type: str = "memory"
    url: str = ""
    ttl: float = 24 * 3600.0

    def __repr__(self) -> str:
        # The URL of a store may have a password.
        return f"<SessionSettings {self.type}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one agent; paths are those of this machine."""

    name: str
    namespace: str
    pack: str = ""
    version: str = ""
    variant: str = "stable"
    """`candidate` in the Pods of a canary."""
    facade: str = "websocket"
    host: str = "127.0.0.1"
    port: int = 8080
    health_port: int | None = None
    prompts: Path = Path(PROMPTS)
    tools: Path = Path(TOOLS)
    provider: ProviderSettings = ProviderSettings()
    session: SessionSettings = SessionSettings()
    resolver: str = ""
    """The URL that resolves Service names where there is no cluster DNS; empty for none."""

    def __repr__(self) -> str:
        return f"<Settings of {self.namespace}/{self.name}>"


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Reads the settings; raises ConfigError with the variable that is missing or malformed.

    What is well formed and not supported, such as another provider, is no error here: the agent starts, is not ready,
    and reports it, so that it can be read in the status of the AgentRuntime.
    """
    for name in ("OMNIA_AGENT_NAME", "OMNIA_NAMESPACE"):
        if not environment.get(name):
            raise ConfigError(f"{name}: not set; the operator sets it in the Deployment")
    health = environment.get("OMNIA_HEALTH_PORT")
    root = environment.get("LEVELSET_MOUNT_ROOT", "")
    return Settings(
        name=environment["OMNIA_AGENT_NAME"],
        namespace=environment["OMNIA_NAMESPACE"],
        pack=environment.get("OMNIA_PROMPTPACK_NAME", ""),
        version=environment.get("OMNIA_PROMPTPACK_VERSION", ""),
        variant=environment.get("OMNIA_VARIANT", "stable"),
        facade=environment.get("OMNIA_FACADE_TYPE", "websocket"),
        host=_host(environment),
        port=_port("OMNIA_FACADE_PORT", environment.get("OMNIA_FACADE_PORT", "8080")),
        health_port=_port("OMNIA_HEALTH_PORT", health) if health else None,
        prompts=_folder(environment.get("OMNIA_PROMPTS_PATH", PROMPTS), root),
        tools=_folder(environment.get("OMNIA_TOOLS_PATH", TOOLS), root),
        provider=_provider(environment),
        session=SessionSettings(
            type=environment.get("OMNIA_SESSION_TYPE", "memory"),
            url=environment.get("OMNIA_SESSION_STORE_URL", ""),
            ttl=parse_duration("OMNIA_SESSION_TTL", environment.get("OMNIA_SESSION_TTL", "24h")),
        ),
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


def _provider(environment: Mapping[str, str]) -> ProviderSettings:
    kind = environment.get("OMNIA_PROVIDER_TYPE") or "auto"
    base_url, openai_key = environment.get("OMNIA_PROVIDER_BASE_URL", ""), environment.get("OPENAI_API_KEY", "")
    if kind == "auto":
        # What names no endpoint must not send prompts to one.
        kind = "openai" if base_url or openai_key else "mock"
    tokens = _number("OMNIA_PROVIDER_MAX_TOKENS", environment)
    return ProviderSettings(
        type=kind,
        model=environment.get("OMNIA_PROVIDER_MODEL", ""),
        base_url=base_url,
        key=openai_key or environment.get("OMNIA_PROVIDER_API_KEY", ""),
        temperature=_number("OMNIA_PROVIDER_TEMPERATURE", environment),
        top_p=_number("OMNIA_PROVIDER_TOP_P", environment),
        max_tokens=None if tokens is None else int(tokens),
    )


def _number(field: str, environment: Mapping[str, str]) -> float | None:
    text = environment.get(field)
    if not text:
        return None
    try:
        return float(text)
    except ValueError as error:
        raise ConfigError(f"{field} {text!r}: a number is expected") from error


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
