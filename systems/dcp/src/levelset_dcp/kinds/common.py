"""Types that several kinds share: variables, probes, certificates, terminals and health."""

from typing import Annotated, Literal

from levelset import Condition, ListMap, Meta, Rule
from levelset.objects import MicroTime, Model

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
    "ProbeResults",
    "ProbeSchedule",
    "Terminal",
]

HealthStatus = Literal["Healthy", "Caution", "Unhealthy"]

Conditions = Annotated[tuple[Condition, ...], ListMap("type")]


class EnvVar(Model):
    """An environment variable; its value may contain a template."""

    name: Annotated[str, Meta(min_length=1)]
    value: str = ""


Env = Annotated[tuple[EnvVar, ...], ListMap("name")]


class AmbientEnvironment(Model):
    """Whether a program inherits the environment of the manager."""

    behavior: Literal["Inherit", "DoNotInherit"] = "Inherit"


class HttpHeader(Model):
    """A header of a request; its value may contain a template."""

    name: Annotated[str, Meta(min_length=1)]
    value: str = ""


class HttpProbe(Model):
    """Requests a URL, which may contain a template; 2xx is Success, 3xx is Unknown, and the rest is Failure."""

    url: Annotated[str, Meta(min_length=1)]
    headers: tuple[HttpHeader, ...] = ()


class ExecutableProbe(Model):
    """Runs a program; the exit code 0 is Success."""

    executable_path: Annotated[str, Meta(min_length=1)]
    args: tuple[str, ...] = ()
    env: Env = ()
    working_directory: str = ""


Duration = Annotated[str, Meta(pattern=r"^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$", max_length=64)]


class ProbeSchedule(Model):
    """When a probe runs; durations have the form `5s` or `1m30s`."""

    interval: Duration
    kind: Literal["Continuous", "UntilSuccess"] = "Continuous"
    timeout: Duration | None = None
    initial_delay: Duration | None = None


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
    rules=[Rule("self.socketMode != 'connect' || has(self.udsPath)", "connect needs udsPath, a socket to connect to")],
):
    """The terminal of a workload, on a unix socket."""

    uds_path: Annotated[str, Meta(min_length=1, max_length=100)] | None = None
    socket_mode: Literal["listen", "connect"] = "listen"
    cols: Annotated[int, Meta(ge=0, le=32767)] = 80
    rows: Annotated[int, Meta(ge=0, le=32767)] = 24
