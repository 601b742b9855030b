"""The manifests that install the operator in a cluster: CRDs, RBAC, Deployment."""

from collections.abc import Mapping

from levelset.codegen import Installation, Permission, installation_of, manifests_of, permit
from levelset.errors import ConfigError
from levelset.kinds.apps_v1 import Deployment
from levelset.kinds.core_v1 import ConfigMap, Pod, Service
from levelset.objects import replace
from levelset_omnia.kinds import AgentRuntime, PromptPack, Provider, ToolRegistry
from levelset_omnia.options import Options
from levelset_omnia.system import omnia_system
from levelset_omnia.well_known import LEASE

__all__ = ["installation", "manifests", "permissions"]

_NAME = "omnia-operator"
_IMAGE = "ghcr.io/altairalabs/omnia-operator:latest"


def manifests(
    options: Options | None = None, *, image: str = _IMAGE, namespace: str = "omnia-system", replicas: int = 1
) -> Mapping[str, str]:
    """The manifests by path: one file per topic, and `install.yaml` with all of them."""
    return manifests_of(installation(options, image=image, namespace=namespace, replicas=replicas))


def installation(
    options: Options | None = None, *, image: str = _IMAGE, namespace: str = "omnia-system", replicas: int = 1
) -> Installation:
    """The Installation of the operator; with several replicas it elects a leader."""
    if replicas < 1:
        raise ConfigError(f"replicas={replicas}: must be at least one")
    chosen = options or Options()
    system = omnia_system(chosen)
    made = installation_of(
        system.controllers,
        name=_NAME,
        image=image,
        namespace=namespace,
        kinds=[AgentRuntime, PromptPack, Provider, ToolRegistry],
        webhooks=system.webhooks,
        extras=permissions(namespace),
        command=("levelset-omnia", "run"),
        arguments=_arguments(chosen, elects=replicas > 1),
        description="Runs agents, their prompts and their tools.",
    )
    return replace(made, replicas=replicas)


def permissions(namespace: str) -> list[Permission]:
    """The permissions of the operator besides those that follow from the watches of its controllers."""
    return [
        permit(AgentRuntime, "patch", part="status"),
        permit(PromptPack, "patch", part="status"),
        permit(ToolRegistry, "patch", part="status"),
        permit(Provider, "patch", part="status"),
        permit(AgentRuntime, "patch", why="sets a finalizer"),
        permit(Deployment, "create", "patch", "delete"),
        permit(ConfigMap, "create", "patch", "delete", why="holds the tools file of agents"),
        permit(Service, "create", "patch"),
        permit(Pod, "list", why="reads the reports of Pods that are not ready"),
        Permission("coordination.k8s.io", "leases", ["create"], namespace=namespace, rarely=True),
        Permission("coordination.k8s.io", "leases", ["get", "update"], names=[LEASE], namespace=namespace, rarely=True),
    ]


def _arguments(options: Options, *, elects: bool) -> list[str]:
    arguments = [
        "--health=0.0.0.0:8081",
        "--log-json",
        f"--agent-image={options.agent_image}",
        f"--workers={options.workers}",
    ]
    arguments += [f"--drain={options.drain_seconds}s"] if options.drain_seconds else []
    delay, period = options.readiness_delay, options.readiness_period
    arguments += [] if (delay, period) == (5, 10) else [f"--readiness-delay={delay}s", f"--readiness-period={period}s"]
    return [*arguments, "--leader-elect"] if elects else arguments
