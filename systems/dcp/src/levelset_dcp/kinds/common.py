"""Types that several kinds share: variables, probes, certificates, terminals and health."""

from functools import cache
from typing import Annotated, Any, Literal

import msgspec

from levelset import Condition, ListMap, Meta, Rule, Spec, field
from levelset.objects import MicroTime, Model, PreserveUnknown

__all__ = [
    "AmbientEnvironment",
    "Certificate",
    "Certificates",
    "Conditions",
    "Env",
    "EnvVar",
    "ExecutableProbe",
    "HealthProbe",
    "HealthProbeResult",
    "HealthStatus",
    "HttpHeader",
    "HttpProbe",
    "ProbeProgram",
    "ProbeResults",
    "ProbeSchedule",
    "ProbeTemplate",
    "ProgramSpec",
    "Terminal",
    "fill_empty",
]

HealthStatus = Literal["Healthy", "Caution", "Unhealthy"]

Conditions = Annotated[tuple[Condition, ...], ListMap("type")]


def fill_empty(model: Model) -> None:
    """Gives each text of a new model that is empty its default: to clients of DCP, `mode: ""` means not given."""
    for name, default in _text_defaults(type(model)):
        if getattr(model, name) == "":
            msgspec.structs.force_setattr(model, name, default)


@cache
def _text_defaults(kind: type[Model]) -> tuple[tuple[str, str], ...]:
    defaults = {one.name: one.default for one in msgspec.structs.fields(kind)}
    return tuple((name, default) for name, default in defaults.items() if isinstance(default, str) and default)


class EnvVar(Model):
    """An environment variable; its value may contain a template."""

    name: Annotated[str, Meta(min_length=1)]
    value: str = ""


Env = Annotated[tuple[EnvVar, ...], ListMap("name")]


class AmbientEnvironment(Model):
    """Whether a program inherits the environment of the manager."""

    behavior: Literal["", "Inherit", "DoNotInherit"] = "Inherit"

    def __post_init__(self) -> None:
        fill_empty(self)


class HttpHeader(Model):
    """A header of a request; its value may contain a template."""

    name: Annotated[str, Meta(min_length=1)]
    value: str = ""


class HttpProbe(Model):
    """Requests a URL, which may contain a template; 2xx is Success, 3xx is Unknown, and the rest is Failure."""

    url: Annotated[str, Meta(min_length=1)]
    headers: tuple[HttpHeader, ...] = ()


Duration = Annotated[str, Meta(pattern=r"^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$", max_length=64)]


class ProbeSchedule(Model):
    """When a probe runs; durations have the form `5s` or `1m30s`."""

    interval: Duration
    kind: Literal["", "Continuous", "UntilSuccess"] = "Continuous"
    timeout: Duration | None = None
    initial_delay: Duration | None = None

    def __post_init__(self) -> None:
        fill_empty(self)


class Certificate(Model):
    """A PEM certificate with its thumbprint."""

    thumbprint: Annotated[str, Meta(pattern=r"^[0-9A-Za-z]+$", max_length=128)]
    contents: Annotated[str, Meta(min_length=1)]


class Certificates(Model):
    """Certificates that are written to files before a workload starts."""

    certificates: Annotated[tuple[Certificate, ...], Meta(min_length=1)]
    continue_on_error: bool = False


class Terminal(
    Model,
    rules=[
        Rule(
            "self.socketMode != 'connect' || (has(self.udsPath) && self.udsPath != '')",
            "connect needs udsPath, a socket to connect to",
        )
    ],
):
    """The terminal of a workload, on a unix socket."""

    uds_path: Annotated[str, Meta(max_length=100)] | None = None
    socket_mode: Literal["", "listen", "connect"] = "listen"
    cols: Annotated[int, Meta(ge=0, le=32767)] = 80
    rows: Annotated[int, Meta(ge=0, le=32767)] = 24

    def __post_init__(self) -> None:
        fill_empty(self)


ExecutionType = Literal["", "Process", "IDE"]
Mode = Literal["", "session", "persistent", "cleanup"]


class ProgramSpec(Spec):
    """The desired state of a program: all of an Executable but its probes."""

    executable_path: Annotated[str, Meta(min_length=1)]
    working_directory: str = ""
    args: tuple[str, ...] = ()
    """They may contain templates, such as `{{ portFor "database" }}`."""
    env: Env = ()
    env_files: tuple[str, ...] = ()
    execution_type: ExecutionType = "Process"
    fallback_execution_types: tuple[Literal["Process", "IDE"], ...] = ()
    ambient_environment: AmbientEnvironment = AmbientEnvironment()
    start: bool = True
    """Whether to start it; false delays the start until it is set to true, and true cannot be unset."""
    stop: bool = False
    """Stops it for good; it cannot be unset."""
    mode: Mode = "session"
    """`session`: stops with the session; `persistent`: outlives it; `cleanup`: adopts one, and never starts one."""
    persistent: bool = False
    """The older form of `mode: persistent`; it wins over `mode`."""
    lifecycle_key: str = ""
    """A persistent program with another key is restarted; computed from the spec by default."""
    monitor_pid: Annotated[int, Meta(gt=0)] | None = field(name="monitorPid", default=None)
    monitor_timestamp: MicroTime | None = None
    pem_certificates: Certificates | None = None
    terminal: Terminal | None = None

    def __post_init__(self) -> None:
        fill_empty(self)


class ProbeProgram(ProgramSpec):
    """The program of a probe; it has no probes of its own."""

    health_probes: Annotated[tuple[dict[str, Any], ...], PreserveUnknown(), Meta(max_length=0)] = ()


class ProbeTemplate(Model):
    """The template of a probe's program."""

    spec: ProbeProgram
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class ExecutableProbe(Model):
    """Runs a program; the exit code 0 is Success."""

    executable_template: ProbeTemplate


class HealthProbe(
    Model,
    rules=[
        Rule("(self.type == 'HTTP') == has(self.httpProbe)", "an HTTP probe has httpProbe, and no other has"),
        Rule(
            "(self.type == 'Executable') == has(self.executableProbe)",
            "an Executable probe has executableProbe, and no other has",
        ),
    ],
):
    """A health probe of a workload."""

    name: Annotated[str, Meta(pattern=r"^[^_].*$", max_length=253)]
    """Names that begin with `_` are reserved."""
    type: Literal["HTTP", "Executable"]
    schedule: ProbeSchedule
    http_probe: HttpProbe | None = None
    executable_probe: ExecutableProbe | None = None
    annotations: dict[str, str] = {}


class HealthProbeResult(Model):
    """The last result of a probe."""

    probe_name: str
    outcome: Literal["Success", "Failure", "Unknown"]
    timestamp: MicroTime
    reason: str = ""


ProbeResults = Annotated[tuple[HealthProbeResult, ...], ListMap("probeName")]
