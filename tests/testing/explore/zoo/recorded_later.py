"""Creates a child under a made-up name, and only then writes down what it is called.

Whoever dies between the two, or never gets the answer, finds no record and creates another one. Modelled on
cert-manager/cert-manager#4956 and #3603 (several CertificateRequests for one revision of a Certificate) and on
argoproj/argo-rollouts#243 (four AnalysisRuns for one Rollout); cert-manager cured it with names that can be told
beforehand (pull request 5487).
"""

from levelset import Context, Controller, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.habitat import ConfigMap, Expected, config_map

__all__ = ["Certificate", "broken", "expected", "fixed"]


class CertificateSpec(Spec):
    host: str


class CertificateStatus(Status):
    order: str = ""


class Certificate(Resource[CertificateSpec, CertificateStatus], api="zoo.example.dev/v1"):
    """Wants to be signed, once."""


async def sign_and_record(certificate: Certificate, ctx: Context) -> None:
    if certificate.status is None or not certificate.status.order:
        order = await ctx.create(order_of(certificate, prefix=f"{certificate.name}-"), owner=certificate)
        await ctx.set_status(certificate, CertificateStatus(order=order.name))


async def sign_by_name(certificate: Certificate, ctx: Context) -> None:
    order = await ctx.apply(order_of(certificate, f"{certificate.name}-order"), owner=certificate)
    await ctx.set_status(certificate, CertificateStatus(order=order.name))


def order_of(certificate: Certificate, name: str = "", *, prefix: str = "") -> ConfigMap:
    return config_map(certificate, name, prefix=prefix, host=certificate.spec.host)


async def scenario(people: Cluster) -> None:
    await people.create(Certificate.new("shop", CertificateSpec(host="shop.example.dev")))
    await people.settled()


broken = Exploration(scenario, lambda: [Controller(Certificate, sign_and_record)])
fixed = Exploration(scenario, lambda: [Controller(Certificate, sign_by_name)])
expected = Expected("created twice", "create", "ConfigMap")
