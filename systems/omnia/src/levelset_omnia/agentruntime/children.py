"""What an agent consists of in a cluster: a Deployment, a second one while a version is tried, a Service, its tools."""

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
from levelset_omnia.agentruntime.environment import environment, tools_file
from levelset_omnia.kinds import AgentRuntime, ToolRegistry
from levelset_omnia.naming import (
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
from levelset_omnia.options import Options
from levelset_omnia.promptpack import Use

__all__ = ["Plan", "candidate_name", "tools_name"]

_PROMPTS = "promptpack-config"
_TOOLS = "tools-config"


def candidate_name(agent: AgentRuntime) -> str:
    """The name of the Deployment of a version that is tried."""
    return f"{agent.name}{CANARY_SUFFIX}"


def tools_name(agent: AgentRuntime) -> str:
    """The name of the ConfigMap that tells an agent about its tools."""
    return f"{agent.name}{TOOLS_SUFFIX}"


class Plan:
    """Builds the children of one agent; what they have in common is said once."""

    def __init__(self, agent: AgentRuntime, registry: ToolRegistry | None, options: Options) -> None:
        self._agent = agent
        self._registry = registry
        self._options = options
        self._labels = selector_of(agent.name)

    def stable(self, use: Use, *, replicas: int, digest: str) -> Deployment:
        """The Deployment of the active version."""
        return self._deployment(self._agent.name, STABLE, use, replicas, digest)

    def candidate(self, use: Use, *, replicas: int, digest: str) -> Deployment:
        """The Deployment of a version that is tried."""
        return self._deployment(candidate_name(self._agent), CANARY, use, replicas, digest)

    def service(self) -> Service:
        """The Service that reaches the Pods of both."""
        port = ServicePort(name=FACADE, port=self._agent.spec.facade.port, target_port=FACADE, protocol="TCP")
        spec = ServiceSpec(type="ClusterIP", selector=self._labels, ports=(port,))
        return Service(metadata=self._metadata(self._agent.name), spec=spec)

    def tools(self) -> ConfigMap | None:
        """The ConfigMap with the tools, if the agent has any."""
        if self._registry is None:
            return None
        return ConfigMap(
            metadata=self._metadata(tools_name(self._agent)), data={TOOLS_FILE: tools_file(self._registry)}
        )

    def _metadata(self, name: str, labels: dict[str, str] | None = None) -> ObjectMeta:
        return ObjectMeta(name=name, namespace=self._agent.namespace, labels=labels or self._labels)

    def _deployment(self, name: str, track: str, use: Use, replicas: int, digest: str) -> Deployment:
        labels = {**self._labels, TRACK: track}
        template = PodTemplateSpec(
            metadata=ObjectMeta(labels=labels, annotations={CONFIG_HASH: digest}),
            spec=self._pod(use, is_candidate=track == CANARY),
        )
        # A Pod goes only when another one is ready in its place: nobody notices the change of a prompt.
        rolling = RollingUpdateDeployment(max_unavailable=0, max_surge="25%")
        spec = DeploymentSpec(
            replicas=replicas,
            selector=LabelSelector(match_labels=labels),
            strategy=DeploymentStrategy(type="RollingUpdate", rolling_update=rolling),
            template=template,
        )
        return Deployment(metadata=self._metadata(name, labels), spec=spec)

    def _pod(self, use: Use, *, is_candidate: bool) -> PodSpec:
        runtime = self._agent.spec.runtime
        return PodSpec(
            containers=(self._container(use, is_candidate=is_candidate),),
            volumes=tuple(Volume(name=name, config_map=source) for name, source in self._sources(use).items()),
            node_selector=runtime.node_selector,
            tolerations=runtime.tolerations,
            affinity=runtime.affinity,
        )

    def _sources(self, use: Use) -> dict[str, ConfigMapVolumeSource]:
        prompts = ConfigMapVolumeSource(name=use.revision.config_map)
        if self._registry is None:
            return {_PROMPTS: prompts}
        return {_PROMPTS: prompts, _TOOLS: ConfigMapVolumeSource(name=tools_name(self._agent))}

    def _container(self, use: Use, *, is_candidate: bool) -> Container:
        mounts = {_PROMPTS: PROMPTS_PATH, **({} if self._registry is None else {_TOOLS: TOOLS_PATH})}
        options = self._options
        drain = options.drain_seconds
        return Container(
            name=AGENT,
            image=options.agent_image,
            image_pull_policy="IfNotPresent",
            ports=(ContainerPort(name=FACADE, container_port=self._agent.spec.facade.port, protocol="TCP"),),
            env=environment(self._agent, use, self._registry, is_candidate=is_candidate),
            resources=self._agent.spec.runtime.resources,
            volume_mounts=tuple(VolumeMount(name=one, mount_path=at, read_only=True) for one, at in mounts.items()),
            readiness_probe=_probe(delay=options.readiness_delay, period=options.readiness_period),
            liveness_probe=_probe(delay=15, period=20),
            lifecycle=Lifecycle(pre_stop=LifecycleHandler(sleep=SleepAction(seconds=drain))) if drain else None,
        )


def _probe(*, delay: int, period: int) -> Probe:
    asked = HTTPGetAction(path="/healthz", port=FACADE)
    return Probe(http_get=asked, initial_delay_seconds=delay, period_seconds=period)
