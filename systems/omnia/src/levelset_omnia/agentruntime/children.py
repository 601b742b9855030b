"""The children of an agent: its Deployment, a second one during a canary, its Service and its tools ConfigMap."""

from msgspec import Struct

from levelset.kinds.apps_v1 import Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment
from levelset.kinds.core_v1 import (
    ConfigMap,
    ConfigMapVolumeSource,
    Container,
    ContainerPort,
    HTTPGetAction,
    Lifecycle,
    LifecycleHandler,
    PodSpec,
    PodTemplateSpec,
    Probe,
    Service,
    ServicePort,
    ServiceSpec,
    SleepAction,
    Volume,
    VolumeMount,
)
from levelset.kinds.meta_v1 import LabelSelector
from levelset.objects import ObjectMeta
from levelset_omnia.agentruntime.environment import EffectiveProvider, environment, tools_file
from levelset_omnia.kinds import AgentRuntime, ToolRegistry
from levelset_omnia.options import Options
from levelset_omnia.promptpack import PackVersion
from levelset_omnia.well_known import (
    AGENT,
    CANARY,
    CANARY_SUFFIX,
    CONFIG_HASH,
    FACADE,
    PROMPTS_PATH,
    STABLE,
    TOOLS_FILE,
    TOOLS_PATH,
    TOOLS_SUFFIX,
    TRACK,
    selector_of,
)

__all__ = [
    "ChildBuilder",
    "ReplicaPlan",
    "candidate_name",
    "is_rolled_out",
    "plan_replicas",
    "ready_replicas",
    "split_replicas",
    "tools_name",
]

_PROMPTS = "promptpack-config"
_TOOLS = "tools-config"


def candidate_name(agent: AgentRuntime) -> str:
    """The name of the canary Deployment."""
    return f"{agent.name}{CANARY_SUFFIX}"


def tools_name(agent: AgentRuntime) -> str:
    """The name of the ConfigMap with the tools file."""
    return f"{agent.name}{TOOLS_SUFFIX}"


class ReplicaPlan(Struct, frozen=True):
    """The replicas that each Deployment should have now."""

    stable: int
    candidate: int = 0
    """0 means that the canary Deployment is removed once the stable one is rolled out."""


def split_replicas(total: int, weight: int) -> tuple[int, int]:
    """The replicas of candidate and stable for a weight in percent; halves round up: one Pod switches at 50 %."""
    candidate = (total * weight + 50) // 100
    return candidate, total - candidate


def plan_replicas(total: int, *, weight: int | None, candidate: Deployment | None) -> ReplicaPlan:
    """The next replica counts, given the ready Pods of the candidate; without a weight there is no candidate.

    Traffic goes to all ready Pods of a Service alike, so a share of traffic is a share of Pods. Pods of the stable
    Deployment are only removed when Pods of the candidate are ready: there are never fewer than the agent's replicas.
    """
    wanted = 0 if weight is None else split_replicas(total, weight)[0]
    return ReplicaPlan(total - min(wanted, ready_replicas(candidate)), wanted)


def ready_replicas(deployment: Deployment | None) -> int:
    """The number of ready Pods of the current template."""
    status = None if deployment is None else deployment.status
    if deployment is None or status is None or status.observed_generation < deployment.metadata.generation:
        return 0
    return min(status.updated_replicas, status.ready_replicas)


def is_rolled_out(deployment: Deployment, replicas: int) -> bool:
    """Whether all Pods are of the current template and available, and no others exist."""
    status = deployment.status
    if status is None or status.observed_generation < deployment.metadata.generation:
        return False
    counts = {status.replicas, status.updated_replicas, status.available_replicas}
    return counts == {replicas}


class ChildBuilder:
    """Builds the children of one agent."""

    def __init__(
        self,
        agent: AgentRuntime,
        registry: ToolRegistry | None,
        options: Options,
        *,
        provider: EffectiveProvider | None = None,
    ) -> None:
        self._agent = agent
        self._registry = registry
        self._provider = provider
        self._options = options
        self._labels = selector_of(agent.name)

    def stable(self, version: PackVersion, *, replicas: int, digest: str) -> Deployment:
        """The Deployment of the active version."""
        return self._deployment(self._agent.name, STABLE, version, replicas, digest)

    def candidate(self, version: PackVersion, *, replicas: int, digest: str) -> Deployment:
        """The Deployment of the canary version."""
        return self._deployment(candidate_name(self._agent), CANARY, version, replicas, digest)

    def service(self) -> Service:
        """The Service that selects the Pods of both Deployments."""
        port = ServicePort(name=FACADE, port=self._agent.spec.facade.port, target_port=FACADE, protocol="TCP")
        spec = ServiceSpec(type="ClusterIP", selector=self._labels, ports=(port,))
        return Service(metadata=self._metadata(self._agent.name), spec=spec)

    def tools(self) -> ConfigMap | None:
        """The ConfigMap with the tools file; None without a registry."""
        if self._registry is None:
            return None
        return ConfigMap(
            metadata=self._metadata(tools_name(self._agent)), data={TOOLS_FILE: tools_file(self._registry)}
        )

    def _metadata(self, name: str, labels: dict[str, str] | None = None) -> ObjectMeta:
        return ObjectMeta(name=name, namespace=self._agent.namespace, labels=labels or self._labels)

    def _deployment(self, name: str, track: str, version: PackVersion, replicas: int, digest: str) -> Deployment:
        labels = {**self._labels, TRACK: track}
        template = PodTemplateSpec(
            metadata=ObjectMeta(labels=labels, annotations={CONFIG_HASH: digest}),
            spec=self._pod(version, is_candidate=track == CANARY),
        )
        # maxUnavailable 0: a Pod is only removed when its replacement is ready, so that no request is lost.
        rolling = RollingUpdateDeployment(max_unavailable=0, max_surge="25%")
        spec = DeploymentSpec(
            replicas=replicas,
            selector=LabelSelector(match_labels=labels),
            strategy=DeploymentStrategy(type="RollingUpdate", rolling_update=rolling),
            template=template,
        )
        return Deployment(metadata=self._metadata(name, labels), spec=spec)

    def _pod(self, version: PackVersion, *, is_candidate: bool) -> PodSpec:
        runtime = self._agent.spec.runtime
        return PodSpec(
            containers=(self._container(version, is_candidate=is_candidate),),
            volumes=tuple(Volume(name=name, config_map=source) for name, source in self._sources(version).items()),
            node_selector=runtime.node_selector,
            tolerations=runtime.tolerations,
            affinity=runtime.affinity,
        )

    def _sources(self, version: PackVersion) -> dict[str, ConfigMapVolumeSource]:
        prompts = ConfigMapVolumeSource(name=version.revision.config_map)
        if self._registry is None:
            return {_PROMPTS: prompts}
        return {_PROMPTS: prompts, _TOOLS: ConfigMapVolumeSource(name=tools_name(self._agent))}

    def _container(self, version: PackVersion, *, is_candidate: bool) -> Container:
        mounts = {_PROMPTS: PROMPTS_PATH, **({} if self._registry is None else {_TOOLS: TOOLS_PATH})}
        options = self._options
        drain = options.drain_seconds
        return Container(
            name=AGENT,
            image=options.agent_image,
            image_pull_policy="IfNotPresent",
            ports=(ContainerPort(name=FACADE, container_port=self._agent.spec.facade.port, protocol="TCP"),),
            env=environment(self._agent, version, self._registry, provider=self._provider, is_candidate=is_candidate),
            resources=self._agent.spec.runtime.resources,
            volume_mounts=tuple(VolumeMount(name=one, mount_path=at, read_only=True) for one, at in mounts.items()),
            readiness_probe=_probe("/readyz", delay=options.readiness_delay, period=options.readiness_period),
            liveness_probe=_probe("/healthz", delay=15, period=20),
            lifecycle=Lifecycle(pre_stop=LifecycleHandler(sleep=SleepAction(seconds=drain))) if drain else None,
        )


def _probe(path: str, *, delay: int, period: int) -> Probe:
    action = HTTPGetAction(path=path, port=FACADE)
    return Probe(http_get=action, initial_delay_seconds=delay, period_seconds=period)
