"""Turns what an engine is asked for into the words of its command line, for Docker and Podman alike.

Values of variables do not show in the list of processes where that can be had: they are handed over in the environment
of the command line tool, which is told the names alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from levelset_dcp.engines.errors import EngineNotFound
from levelset_dcp.engines.models import ImageBuild, Mount, NewContainer, NewExec, NewNetwork, PortBinding

__all__ = [
    "Invocation",
    "build_image",
    "connect",
    "copy_in",
    "create_container",
    "create_network",
    "create_volume",
    "disconnect",
    "execute",
    "filters",
    "inspect",
    "logs",
    "named",
    "publish",
]

_TOOLS_OWN: Final = ("PATH", "HOME", "USER", "TERM", "TMPDIR", "TMP", "TEMP", "SHELL", "PWD", "LANG")
_TOOLS_OWN_BEGINNINGS: Final = ("DOCKER", "BUILD", "CONTAINER", "PODMAN", "XDG_", "LD_", "LC_", "GO", "SSL_", "SSH_")


@dataclass(frozen=True, slots=True)
class Invocation:
    """The words after the name of the tool, and variables for the tool besides those that it has."""

    words: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str])


def create_container(spec: NewContainer) -> Invocation:
    """`create`, with everything that a container is given."""
    variables = _variables("--env", spec.env)
    words = [
        "create",
        *_option("--name", spec.name),
        *_option("--pull", spec.pull_policy),
        *_option("--restart", spec.restart_policy),
        *_option("--entrypoint", spec.command),
        *variables.words,
        *_pairs("--label", spec.labels),
        *(word for mount in spec.mounts for word in ("--mount", _mount(mount))),
        *(word for port in spec.ports for word in ("--publish", publish(port))),
        *_option("--network", spec.network),
        *(word for alias in spec.aliases for word in ("--network-alias", alias)),
        *(("--tty", "--interactive") if spec.tty else ()),
        *spec.run_args,
        named(spec.image, "image"),
        *spec.args,
    ]
    return Invocation(tuple(words), variables.env)


def publish(port: PortBinding) -> str:
    """Where a port of a container is on this machine: `127.0.0.1:8080:80/tcp`, or `127.0.0.1::80/tcp` for any."""
    address = f"[{port.host_ip}]" if ":" in port.host_ip else port.host_ip
    before = f"{address}:" if address else ""
    if port.host_port:
        before += f"{port.host_port}:"
    elif address:
        before += ":"
    return f"{before}{port.container_port}/{port.protocol}"


def execute(container: str, what: NewExec) -> Invocation:
    """`exec`, with the command and its variables."""
    variables = _variables("--env", what.env)
    words = ("exec", *variables.words, *_option("--workdir", what.working_directory), named(container, "container"))
    return Invocation((*words, *what.command), variables.env)


def logs(container: str, *, follow: bool, timestamps: bool, tail: int | None) -> Invocation:
    """`logs`, and which part of them."""
    words = ["logs"]
    if follow:
        words.append("--follow")
    if timestamps:
        words.append("--timestamps")
    if tail is not None:
        words += ["--tail", str(tail)]
    return Invocation((*words, named(container, "container")))


def copy_in(container: str, folder: str) -> Invocation:
    """`cp` of an archive that comes on the standard input; owners stay those of the archive."""
    return Invocation(("cp", "--archive=false", "-", f"{named(container, 'container')}:{folder}"))


def build_image(what: ImageBuild, *, extra: tuple[str, ...] = ()) -> Invocation:
    """`build`; `extra` are words that only one tool knows."""
    args = _variables("--build-arg", what.args)
    secrets = [_secret(what, number) for number in range(len(what.secrets))]
    words = [
        "build",
        *extra,
        *_option("--file", what.dockerfile),
        *(word for tag in what.tags for word in ("--tag", tag)),
        *args.words,
        *(word for text, _ in secrets for word in ("--secret", text)),
        *_option("--target", what.stage),
        *_pairs("--label", what.labels),
        *_option("--platform", what.platform),
        *(("--pull",) if what.pull else ()),
        named(what.context, "folder"),
    ]
    env = dict(args.env)
    for _, more in secrets:
        env |= more
    return Invocation(tuple(words), env)


def create_network(spec: NewNetwork) -> Invocation:
    """`network create`."""
    ipv6 = ("--ipv6",) if spec.ipv6 else ()
    return Invocation(("network", "create", *ipv6, *_pairs("--label", spec.labels), named(spec.name, "network")))


def connect(network: str, container: str, aliases: tuple[str, ...]) -> Invocation:
    """`network connect`, under some names."""
    words = (word for alias in aliases for word in ("--alias", alias))
    return Invocation(("network", "connect", *words, named(network, "network"), named(container, "container")))


def disconnect(network: str, container: str, *, force: bool) -> Invocation:
    """`network disconnect`."""
    words = ("--force",) if force else ()
    return Invocation(("network", "disconnect", *words, named(network, "network"), named(container, "container")))


def create_volume(name: str, labels: Mapping[str, str]) -> Invocation:
    """`volume create`."""
    return Invocation(("volume", "create", *_pairs("--label", labels), named(name, "volume")))


def inspect(kind: str, names: Iterable[str]) -> Invocation:
    """`KIND inspect` of some things, as JSON."""
    return Invocation((kind, "inspect", "--format", "{{json .}}", *(named(one, kind) for one in names)))


def filters(labels: Mapping[str, str] | None) -> tuple[str, ...]:
    """Options that list only what has all these labels."""
    return tuple(word for key, value in (labels or {}).items() for word in ("--filter", f"label={key}={value}"))


def named(name: str, kind: str) -> str:
    """A name that cannot be taken for an option; there is nothing that is called otherwise."""
    if not name or name.startswith("-"):
        raise EngineNotFound(f"there is no {kind} {name!r}: names are not empty, and do not begin with a dash")
    return name


def _option(flag: str, value: str) -> tuple[str, ...]:
    return (flag, value) if value else ()


def _pairs(flag: str, pairs: Mapping[str, str]) -> list[str]:
    return [word for key, value in pairs.items() for word in (flag, f"{key}={value}")]


def _variables(flag: str, variables: Mapping[str, str]) -> Invocation:
    """Options for variables: by name where the tool itself does not look at it, else with the value."""
    words: list[str] = []
    env: dict[str, str] = {}
    for key, value in variables.items():
        if _is_of_the_tool(key):
            words += [flag, f"{key}={value}"]
        else:
            words += [flag, key]
            env[key] = value
    return Invocation(tuple(words), env)


def _is_of_the_tool(key: str) -> bool:
    loud = key.upper()
    return loud in _TOOLS_OWN or loud.startswith(_TOOLS_OWN_BEGINNINGS) or loud.endswith("_PROXY") or "=" in key


def _mount(mount: Mount) -> str:
    parts = [f"type={mount.type}", f"source={mount.source}", f"target={mount.target}"]
    if mount.read_only:
        parts.append("ro")  # the word that both know for folders and volumes
    return ",".join(_field(part) for part in parts)


def _field(text: str) -> str:
    """One field of comma-separated values."""
    if not any(sign in text for sign in ',"\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


def _secret(what: ImageBuild, number: int) -> tuple[str, Mapping[str, str]]:
    """The words for a secret, and the variable that holds its value if it is handed over by one."""
    secret = what.secrets[number]
    if secret.type == "file":
        return ",".join(_field(one) for one in (f"id={secret.id}", f"src={secret.source}")), {}
    if secret.value or not secret.source:
        name = f"LEVELSET_BUILD_SECRET_{number}"
        return f"id={secret.id},type=env,env={name}", {name: secret.value}
    return f"id={secret.id},type=env,env={secret.source}", {}
