"""Executable: a program of this machine; ExecutableReplicaSet: several of the same."""

from typing import Annotated, Final, Literal

from levelset import Column, Meta, Resource, Scale, Spec, Status, field
from levelset.objects import MicroTime, Model
from levelset_dcp.kinds.common import (
    Conditions,
    Env,
    ExecutionType,
    HealthProbe,
    HealthStatus,
    Mode,
    ProbeResults,
    ProgramSpec,
)
from levelset_dcp.names import API

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

ExecutableState = Literal[
    "", "Starting", "Running", "NotFound", "Stopping", "Terminated", "FailedToStart", "Finished", "Unknown"
]

_AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")


class ExecutableSpec(ProgramSpec):
    """The desired state of a program."""

    health_probes: tuple[HealthProbe, ...] = ()


class ExecutableStatus(Status):
    """The observed state of a program."""

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
    """The variables of spec and env files with their effective values; inherited ones are not shown."""
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
    """The template of a set's replicas."""

    spec: ExecutableSpec
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class ExecutableReplicaSetSpec(Spec):
    """The desired state of a set."""

    template: ExecutableTemplate
    replicas: Annotated[int, Meta(ge=0)] = 0
    stop_on_scale_down: bool = False
    """Whether surplus replicas are stopped and marked inactive; otherwise they are deleted."""


class ExecutableReplicaSetStatus(Status):
    """The observed state of a set."""

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
