"""Relies on a webhook that injects a sidecar, and never notices a pod that was created while the webhook was down.

Modelled on linkerd/linkerd2#13702 and kumahq/kuma#3293 (with a failure policy of Ignore, pods start without their
sidecar, and stay so). The fix rejects pods while the webhook is down, and the controller retries.
"""

from levelset import Context, Controller, Resource, Spec, Status, defaults, owns, replace
from levelset.runtime.webhook.admission import FailurePolicy
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Workload", "broken", "expected", "fixed"]


class WorkloadSpec(Spec):
    image: str


class Workload(Resource[WorkloadSpec, Status], api="zoo.example.dev/v1"):
    """A workload with one pod, which has to be in the mesh."""


def inject(pod: ConfigMap) -> ConfigMap:
    return replace(pod, data={**pod.data, "sidecar": "proxy"})


async def run(workload: Workload, ctx: Context) -> None:
    await ctx.apply(config_map(workload, workload.name, image=workload.spec.image), owner=workload)


async def scenario(user: Cluster) -> None:
    await user.create(Workload.new("shop", WorkloadSpec(image="shop:1")))
    await user.settled()


def exploration(policy: FailurePolicy) -> Exploration:
    injector = defaults(ConfigMap, inject, on="create", failure_policy=policy)
    return Exploration(scenario, lambda: [Controller(Workload, run, owns(ConfigMap))], webhooks=[injector])


broken = exploration("Ignore")
fixed = exploration("Fail")
expected = Expected("end state", "apply", "ConfigMap")
