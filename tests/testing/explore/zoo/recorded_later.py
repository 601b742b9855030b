"""Creates a child with a generated name, and only then records the name.

After a crash or a lost response in between, there is no record, and another child is created. Modelled on
cert-manager/cert-manager#4956 and #3603 (several CertificateRequests for one revision of a Certificate) and
argoproj/argo-rollouts#243 (four AnalysisRuns for one Rollout); cert-manager fixed it with deterministic names (pull
request 5487).
"""

from levelset import Context, Controller, Resource, Spec, Status, owns
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Certificate", "broken", "expected", "fixed"]


class CertificateSpec(Spec):
    host: str


class CertificateStatus(Status):
    order: str = ""


class Certificate(Resource[CertificateSpec, CertificateStatus], api="zoo.example.dev/v1"):
    """A certificate, which must be ordered once."""


async def sign_and_record(certificate: Certificate, ctx: Context) -> None:
    if certificate.status is None or not certificate.status.order:
        order = await ctx.create(order_of(certificate, prefix=f"{certificate.name}-"), owner=certificate)
        await ctx.set_status(certificate, CertificateStatus(order=order.name))


async def sign_by_name(certificate: Certificate, ctx: Context) -> None:
    order = await ctx.apply(order_of(certificate, f"{certificate.name}-order"), owner=certificate)
    await ctx.set_status(certificate, CertificateStatus(order=order.name))


def order_of(certificate: Certificate, name: str = "", *, prefix: str = "") -> ConfigMap:
    return config_map(certificate, name, prefix=prefix, host=certificate.spec.host)


async def scenario(user: Cluster) -> None:
    await user.create(Certificate.new("shop", CertificateSpec(host="shop.example.dev")))
    await user.settled()


broken = Exploration(scenario, lambda: [Controller(Certificate, sign_and_record)])
fixed = Exploration(scenario, lambda: [Controller(Certificate, sign_by_name, owns(ConfigMap))])
expected = Expected("created twice", "create", "ConfigMap")
