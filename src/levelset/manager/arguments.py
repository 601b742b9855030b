"""What may be said when a program that calls `run` is started: a handful of words, read without a framework."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from levelset.errors import ConfigError

__all__ = ["USAGE", "Arguments", "read_arguments"]

USAGE: Final = """\
  --local            bring an API server of its own, in memory, with the definitions of all kinds in use
  --kubeconfig PATH  the file that says where the cluster is; with --local, where to write one for kubectl
  --data PATH        with --local, the file that keeps the objects; in memory unless given
  --port NUMBER      with --local, the port of the server; any free one unless given
  --context NAME     the context in it
  --namespace NAME   look at this namespace only
  --health ADDRESS   serve /healthz, /readyz and /metrics at PORT or HOST:PORT
  --output text|json say where it is and what it watches in lines for people, or in a line of JSON for programs
  --log-json         write logs as JSON, one object on each line; LEVELSET_LOG=json does the same
  --help             show this"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What was said; None where nothing was."""

    local: bool = False
    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    data: str | None = None
    port: int | None = None
    health: tuple[str, int] | None = None
    output: str | None = None
    log_json: bool = False
    help: bool = False


_FLAGS: Final = {"--local": "local", "--log-json": "log_json", "--help": "help", "-h": "help"}
_VALUES: Final = {
    "--kubeconfig": "kubeconfig",
    "--context": "context",
    "--data": "data",
    "--port": "port",
    "--namespace": "namespace",
    "-n": "namespace",
    "--health": "health",
    "--output": "output",
    "-o": "output",
}
_OUTPUTS: Final = ("text", "json")


def read_arguments(words: Sequence[str]) -> Arguments:
    """What these words of a command line say; ConfigError, with what there is, for any other."""
    found = Arguments()
    left = list(words)
    while left:
        word, is_joined, joined = left.pop(0).partition("=")
        changes: dict[str, Any]
        if word in _FLAGS and not is_joined:
            changes = {_FLAGS[word]: True}
        elif word in _VALUES:
            value = joined if is_joined else (left.pop(0) if left else "")
            changes = {_VALUES[word]: _read_value(word, value)}
        else:
            raise ConfigError(f"{word} is not understood here; there is\n{USAGE}")
        found = replace(found, **changes)
    return found


def _read_value(word: str, value: str) -> str | int | tuple[str, int]:
    if not value or value.startswith("--"):
        raise ConfigError(f"{word} needs a value; there is\n{USAGE}")
    if word == "--port":
        return _read_port(value)
    if _VALUES[word] == "output" and value not in _OUTPUTS:
        raise ConfigError(f"{word} {value}: choose text (for people) or json (for programs)")
    return _read_address(value) if word == "--health" else value


def _read_port(value: str) -> int:
    if not value.isdecimal() or not value.isascii() or int(value) > 65535:
        raise ConfigError(f"--port {value}: give a number up to 65535, or 0 for any free one")
    return int(value)


def _read_address(value: str) -> tuple[str, int]:
    host, _, port = value.rpartition(":")
    if not port.isdecimal() or not port.isascii() or int(port) > 65535:
        raise ConfigError(f"--health {value}: give a port such as 8081, or a host and a port such as 0.0.0.0:8081")
    return host.strip("[]") or "127.0.0.1", int(port)
