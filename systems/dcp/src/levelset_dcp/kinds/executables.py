"""Executable: a program of this machine; ExecutableReplicaSet: several of the same."""

from typing import Annotated, Final, Literal

from levelset import Column, Meta, Model, Resource, Scale, Spec, Status, field
from levelset.objects import MicroTime
from levelset_dcp.kinds.common import (
    AmbientEnvironment,
    Certificates,
    Conditions,
    Env,
    HealthProbe,
    HealthStatus,
    ProbeResults,
    Terminal,
)
from levelset_dcp.naming import API

__all__ = [
    "Executable",
    "ExecutableReplicaSet",
    "ExecutableReplicaSetSpec",
    "ExecutableReplicaSetStatus",
    "ExecutableSpec",
    "ExecutableState",
    "ExecutableStatus",
    "ExecutableTemplate",
    "ExecutionType",
    "Mode",
]

ExecutionType = Literal["Process", "IDE"]
Mode = Literal["session", "persistent", "cleanup"]
ExecutableState = Literal[
    "", "Starting", "Running", "NotFound", "Stopping", "Terminated", "FailedToStart", "Finished", "Unknown"
]

_AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")


class ExecutableSpec(Spec):
    """What somebody wants of a program."""

    executable_path: Annotated[str, Meta(min_length=1)]
    working_directory: str = ""
    args: tuple[str, ...] = ()
    """They may hold templates, such as `{{ portFor "database" }}`."""
    env: Env = ()
    env_files: tuple[str, ...] = ()
    execution_type: ExecutionType = "Process"
    fallback_execution_types: tuple[ExecutionType, ...] = ()
    ambient_environment: AmbientEnvironment = AmbientEnvironment()
    start: bool = True
    """Whether to start it; it may be held back until somebody says so, but not be taken back."""
    stop: bool = False
    """Stops it for good; it may not be unset."""
    mode: Mode = "session"
    """`session`: gone with the manager; `persistent`: stays, and is found again; `cleanup`: found, never started."""
    persistent: bool = False
    """The older way to say `mode: persistent`; it wins."""
    lifecycle_key: str = ""
    """A persistent program with another key is started anew; computed from all that matters unless given."""
    monitor_pid: Annotated[int, Meta(gt=0)] | None = field(name="monitorPid", default=None)
    monitor_timestamp: MicroTime | None = None
    health_probes: tuple[HealthProbe, ...] = ()
    pem_certificates: Certificates | None = None
    terminal: Terminal | None = None


class ExecutableStatus(Status):
    """How a program is."""

    state: ExecutableState = ""
    execution_id: str = field(name="executionID", default="")
    pid: int | None = None
    startup_timestamp: MicroTime | None = None
    finish_timestamp: MicroTime | None = None
    exit_code: int | None = None
    std_out_file: str = ""
    std_err_file: str = ""
    terminal_socket_path: str = ""
    effective_env: Env = ()
    """The variables that the spec and its files name, as the program got them; inherited ones are not shown."""
    effective_args: tuple[str, ...] = ()
    health_status: HealthStatus | None = None
    health_probe_results: ProbeResults = ()
    message: str = ""
    conditions: Conditions = ()
    observed_generation: int | None = None


class Executable(
    Resource[ExecutableSpec, ExecutableStatus],
    api=API,
    scope="Cluster",
    short_names=["exe"],
    categories=["dcp"],
    columns=[
        Column("State", ".status.state"),
        Column("Health", ".status.healthStatus"),
        Column("PID", ".status.pid", "integer"),
        Column("Exit", ".status.exitCode", "integer"),
        _AGE,
        Column("Path", ".spec.executablePath", priority=1),
        Column("Message", ".status.message", priority=1),
    ],
):
    """A program that runs on this machine."""


class ExecutableTemplate(Model):
    """What each replica of a set is made from."""

    spec: ExecutableSpec
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class ExecutableReplicaSetSpec(Spec):
    """What somebody wants of a set."""

    template: ExecutableTemplate
    replicas: Annotated[int, Meta(ge=0)] = 0
    stop_on_scale_down: bool = False
    """Whether replicas that are too many are stopped and kept; otherwise they are deleted."""


class ExecutableReplicaSetStatus(Status):
    """How a set is."""

    observed_replicas: int = 0
    running_replicas: int = 0
    failed_replicas: int = 0
    finished_replicas: int = 0
    last_scale_time: MicroTime | None = None
    health_status: HealthStatus | None = None
    conditions: Conditions = ()
    observed_generation: int | None = None


class ExecutableReplicaSet(
    Resource[ExecutableReplicaSetSpec, ExecutableReplicaSetStatus],
    api=API,
    scope="Cluster",
    short_names=["exers"],
    categories=["dcp"],
    columns=[
        Column("Desired", ".spec.replicas", "integer"),
        Column("Running", ".status.runningReplicas", "integer"),
        Column("Health", ".status.healthStatus"),
        _AGE,
    ],
    scale=Scale(spec=".spec.replicas", status=".status.observedReplicas"),
):
    """Several programs of the same kind."""
