"""The measured kinds as levelset classes, with every field of the payloads."""

from datetime import datetime

from levelset import Condition, Resource, Spec, Status
from levelset.objects import Model

__all__ = ["Pod", "Website"]


class Port(Model):
    name: str = ""
    container_port: int = 0
    protocol: str = ""


class Variable(Model):
    name: str
    value: str = ""


class Resources(Model):
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


class WebsiteSpec(Spec):
    image: str
    certificate: str
    replicas: int = 1
    ports: tuple[Port, ...] = ()
    env: tuple[Variable, ...] = ()
    resources: Resources | None = None


class WebsiteStatus(Status):
    ready: int = 0
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class Website(Resource[WebsiteSpec, WebsiteStatus], api="example.dev/v1"):
    """A site served from a container image."""


class ConfigMapVolume(Model):
    name: str = ""
    default_mode: int | None = None


class EmptyDir(Model):
    medium: str = ""


class Volume(Model):
    name: str
    config_map: ConfigMapVolume | None = None
    empty_dir: EmptyDir | None = None


class FieldRef(Model):
    field_path: str
    api_version: str = ""


class ValueFrom(Model):
    field_ref: FieldRef | None = None


class EnvVar(Model):
    name: str
    value: str = ""
    value_from: ValueFrom | None = None


class Mount(Model):
    name: str
    mount_path: str
    read_only: bool = False


class HttpGet(Model):
    port: int | str
    path: str = ""
    scheme: str = ""


class Probe(Model):
    http_get: HttpGet | None = None
    period_seconds: int = 0
    timeout_seconds: int = 0


class Container(Model):
    name: str
    image: str = ""
    args: tuple[str, ...] = ()
    ports: tuple[Port, ...] = ()
    env: tuple[EnvVar, ...] = ()
    resources: Resources | None = None
    volume_mounts: tuple[Mount, ...] = ()
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    termination_message_path: str = ""
    termination_message_policy: str = ""
    image_pull_policy: str = ""


class SecurityContext(Model):
    run_as_non_root: bool | None = None
    run_as_user: int | None = None


class Toleration(Model):
    key: str = ""
    operator: str = ""
    effect: str = ""


class PodSpec(Spec):
    containers: tuple[Container, ...]
    volumes: tuple[Volume, ...] = ()
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    dns_policy: str = ""
    service_account_name: str = ""
    node_name: str = ""
    security_context: SecurityContext | None = None
    scheduler_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    priority: int | None = None
    enable_service_links: bool | None = None


class PodCondition(Model):
    type: str
    status: str
    last_probe_time: datetime | None = None
    last_transition_time: datetime | None = None


class PodIP(Model):
    ip: str


class Running(Model):
    started_at: datetime | None = None


class ContainerState(Model):
    running: Running | None = None


class ContainerStatus(Model):
    name: str
    state: ContainerState | None = None
    last_state: ContainerState | None = None
    ready: bool = False
    restart_count: int = 0
    image: str = ""
    image_id: str = ""
    container_id: str = ""
    started: bool | None = None


class PodStatus(Status):
    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    host_ip: str = ""
    pod_ip: str = ""
    pod_ips: tuple[PodIP, ...] = ()
    start_time: datetime | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    qos_class: str = ""


class Pod(Resource[PodSpec, PodStatus], api="v1"):
    """A Pod with the fields of the payload."""
