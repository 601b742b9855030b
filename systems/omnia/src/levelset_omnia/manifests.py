"""The operator as it is installed in a cluster: definitions, leave, Deployment and the rest, as files."""

from collections.abc import Mapping
from dataclasses import replace

from levelset import ConfigError
from levelset.codegen import Installation, Permission, installation_of, manifests_of, permit
from levelset.kinds.apps_v1 import Deployment
from levelset.kinds.core_v1 import ConfigMap, Service
from levelset_omnia.kinds import AgentRuntime, PromptPack, ToolRegistry
from levelset_omnia.naming import LEASE
from levelset_omnia.options import Options
from levelset_omnia.system import omnia_system

__all__ = ["installation", "manifests", "permissions"]

_NAME = "omnia-operator"
_IMAGE = "ghcr.io/altairalabs/omnia-operator:latest"


def manifests(
    options: Options | None = None, *, image: str = _IMAGE, namespace: str = "omnia-system", replicas: int = 1
) -> Mapping[str, str]:
    """Everything that a cluster needs, by path: a file for each subject, and `install.yaml` with all of them."""
    return manifests_of(installation(options, image=image, namespace=namespace, replicas=replicas))


def installation(
    options: Options | None = None, *, image: str = _IMAGE, namespace: str = "omnia-system", replicas: int = 1
) -> Installation:
    """The operator as one value; several replicas elect a leader."""
    if replicas < 1:
        raise ConfigError(f"replicas={replicas}: at least one")
    chosen = options or Options()
    made = installation_of(
        omnia_system(chosen).controllers,
        name=_NAME,
        image=image,
        namespace=namespace,
        kinds=[AgentRuntime, PromptPack, ToolRegistry],
        extras=permissions(namespace),
        command=("levelset-omnia", "run"),
        arguments=_arguments(chosen, elects=replicas > 1),
        description="Runs agents, their prompts and their tools.",
    )
    return replace(made, replicas=replicas)


def permissions(namespace: str) -> list[Permission]:
    """What the operator does beside watching, which is known from its controllers."""
    return [
        permit(AgentRuntime, "patch", part="status"),
        permit(PromptPack, "patch", part="status"),
        permit(ToolRegistry, "patch", part="status"),
        permit(AgentRuntime, "patch", why="sets a finalizer"),
        permit(Deployment, "create", "patch", "delete"),
        permit(ConfigMap, "create", "patch", "delete", why="tells agents about their tools"),
        permit(Service, "create", "patch"),
        Permission("coordination.k8s.io", "leases", ["create"], namespace=namespace, rarely=True),
        Permission("coordination.k8s.io", "leases", ["get", "update"], names=[LEASE], namespace=namespace, rarely=True),
    ]


def _arguments(options: Options, *, elects: bool) -> list[str]:
    words = [
        "--health=0.0.0.0:8081",
        "--log-json",
        f"--agent-image={options.agent_image}",
        f"--workers={options.workers}",
    ]
    words += [f"--drain={options.drain_seconds}s"] if options.drain_seconds else []
    delay, period = options.readiness_delay, options.readiness_period
    words += [] if (delay, period) == (5, 10) else [f"--readiness-delay={delay}s", f"--readiness-period={period}s"]
    return [*words, "--leader-elect"] if elects else words
