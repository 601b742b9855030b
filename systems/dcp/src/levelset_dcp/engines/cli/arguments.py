"""Builds the command lines of engine calls, for Docker and Podman alike.

Values of variables are hidden from the process list where possible: they are passed in the environment of the tool, and
only their names are in the arguments.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, field

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

_TOOL_VARIABLES: Final = ("PATH", "HOME", "USER", "TERM", "TMPDIR", "TMP", "TEMP", "SHELL", "PWD", "LANG")
_TOOL_PREFIXES: Final = ("DOCKER", "BUILD", "CONTAINER", "PODMAN", "XDG_", "LD_", "LC_", "GO", "SSL_", "SSH_")


class Invocation(Struct, frozen=True):
    """The arguments of the tool, and variables that are added to its environment."""

    args: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str])


def create_container(spec: NewContainer) -> Invocation:
    """`create`, with all options of a container."""
    variables = _variables("--env", spec.env)
    args = [
        "create",
        *_option("--name", spec.name),
        *_option("--pull", spec.pull_policy),
        *_option("--restart", spec.restart_policy),
        *_option("--entrypoint", spec.command),
        *variables.args,
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
    return Invocation(tuple(args), variables.env)


def publish(port: PortBinding) -> str:
    """The value of `--publish`: `127.0.0.1:8080:80/tcp`, or `127.0.0.1::80/tcp` for any free port."""
    address = f"[{port.host_ip}]" if ":" in port.host_ip else port.host_ip
    before = f"{address}:" if address else ""
    if port.host_port:
        before += f"{port.host_port}:"
    elif address:
        before += ":"
    return f"{before}{port.container_port}/{port.protocol}"


def execute(container: str, request: NewExec) -> Invocation:
    """`exec`, with the command and its variables."""
    variables = _variables("--env", request.env)
    args = ("exec", *variables.args, *_option("--workdir", request.working_directory), named(container, "container"))
    return Invocation((*args, *request.command), variables.env)


def logs(container: str, *, follow: bool, timestamps: bool, tail: int | None) -> Invocation:
    """`logs`, with the selection of lines."""
    args = ["logs"]
    if follow:
        args.append("--follow")
    if timestamps:
        args.append("--timestamps")
    if tail is not None:
        args += ["--tail", str(tail)]
    return Invocation((*args, named(container, "container")))


def copy_in(container: str, folder: str) -> Invocation:
    """`cp` of an archive on stdin; owners are those of the archive."""
    return Invocation(("cp", "--archive=false", "-", f"{named(container, 'container')}:{folder}"))


def build_image(request: ImageBuild, *, extra: tuple[str, ...] = ()) -> Invocation:
    """`build`; `extra` are arguments of one tool only."""
    build_args = _variables("--build-arg", request.args)
    secrets = [_secret(request, number) for number in range(len(request.secrets))]
    args = [
        "build",
        *extra,
        *_option("--file", request.dockerfile),
        *(word for tag in request.tags for word in ("--tag", tag)),
        *build_args.args,
        *(word for text, _ in secrets for word in ("--secret", text)),
        *_option("--target", request.stage),
        *_pairs("--label", request.labels),
        *_option("--platform", request.platform),
        *(("--pull",) if request.pull else ()),
        named(request.context, "folder"),
    ]
    env = dict(build_args.env)
    for _, more in secrets:
        env |= more
    return Invocation(tuple(args), env)


def create_network(spec: NewNetwork) -> Invocation:
    """`network create`."""
    ipv6 = ("--ipv6",) if spec.ipv6 else ()
    return Invocation(("network", "create", *ipv6, *_pairs("--label", spec.labels), named(spec.name, "network")))


def connect(network: str, container: str, aliases: tuple[str, ...]) -> Invocation:
    """`network connect`, with aliases."""
    args = (word for alias in aliases for word in ("--alias", alias))
    return Invocation(("network", "connect", *args, named(network, "network"), named(container, "container")))


def disconnect(network: str, container: str, *, force: bool) -> Invocation:
    """`network disconnect`."""
    args = ("--force",) if force else ()
    return Invocation(("network", "disconnect", *args, named(network, "network"), named(container, "container")))


def create_volume(name: str, labels: Mapping[str, str]) -> Invocation:
    """`volume create`."""
    return Invocation(("volume", "create", *_pairs("--label", labels), named(name, "volume")))


def inspect(kind: str, names: Iterable[str]) -> Invocation:
    """`KIND inspect` of several objects, as JSON."""
    return Invocation((kind, "inspect", "--format", "{{json .}}", *(named(one, kind) for one in names)))


def filters(labels: Mapping[str, str] | None) -> tuple[str, ...]:
    """Options that select objects with all these labels."""
    return tuple(word for key, value in (labels or {}).items() for word in ("--filter", f"label={key}={value}"))


def named(name: str, kind: str) -> str:
    """Checks that a name cannot be mistaken for an option; raises EngineNotFound."""
    if not name or name.startswith("-"):
        raise EngineNotFound(f"there is no {kind} {name!r}: names must not be empty or begin with a dash")
    return name


def _option(flag: str, value: str) -> tuple[str, ...]:
    return (flag, value) if value else ()


def _pairs(flag: str, pairs: Mapping[str, str]) -> list[str]:
    return [word for key, value in pairs.items() for word in (flag, f"{key}={value}")]


def _variables(flag: str, variables: Mapping[str, str]) -> Invocation:
    """Options for variables: by name, or with the value if the tool itself reads the variable."""
    args: list[str] = []
    env: dict[str, str] = {}
    for key, value in variables.items():
        if _is_read_by_tool(key):
            args += [flag, f"{key}={value}"]
        else:
            args += [flag, key]
            env[key] = value
    return Invocation(tuple(args), env)


def _is_read_by_tool(key: str) -> bool:
    upper = key.upper()
    return upper in _TOOL_VARIABLES or upper.startswith(_TOOL_PREFIXES) or upper.endswith("_PROXY") or "=" in key


def _mount(mount: Mount) -> str:
    parts = [f"type={mount.type}", f"source={mount.source}", f"target={mount.target}"]
    if mount.read_only:
        parts.append("ro")  # the only spelling that both tools accept for binds and volumes
    return ",".join(_field(part) for part in parts)


def _field(text: str) -> str:
    """One field of comma-separated values."""
    if not any(sign in text for sign in ',"\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


def _secret(request: ImageBuild, number: int) -> tuple[str, Mapping[str, str]]:
    """The value of `--secret`, and the environment variable that holds the secret, if it needs one."""
    secret = request.secrets[number]
    if secret.type == "file":
        return ",".join(_field(one) for one in (f"id={secret.id}", f"src={secret.source}")), {}
    if secret.value or not secret.source:
        name = f"LEVELSET_BUILD_SECRET_{number}"
        return f"id={secret.id},type=env,env={name}", {name: secret.value}
    return f"id={secret.id},type=env,env={secret.source}", {}
