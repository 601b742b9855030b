"""Replaces a certificate that is not valid yet, which every new one is if the clock of the process is behind.

Modelled on scionproto/scion#4942 (certificates that were issued in the future are rejected) and
cert-manager/cert-manager#1786 (a certificate that is always in its renewal period is always renewed). The fix replaces
only what has expired.
"""

from datetime import timedelta
from typing import Any

from levelset import Context, Controller, Ref, Resource, Spec, Status, owns
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Identity", "broken", "expected", "fixed"]

LIFETIME = timedelta(days=90)


class Identity(Resource[Spec, Status], api="zoo.example.dev/v1", plural="identities"):
    """An identity with a certificate, which is valid from its creation on."""


async def replace_invalid(identity: Identity, ctx: Context) -> None:
    certificate = await ctx.find(Ref(ConfigMap, identity.name, identity.namespace))
    if certificate is None:
        certificate = await ctx.create(config_map(identity, identity.name), owner=identity)
    since = certificate.metadata.creation_timestamp
    assert since is not None
    if not since <= ctx.now() < since + LIFETIME:
        await ctx.delete(certificate)


async def replace_expired(identity: Identity, ctx: Context) -> None:
    certificate = await ctx.find(Ref(ConfigMap, identity.name, identity.namespace))
    if certificate is None:
        certificate = await ctx.create(config_map(identity, identity.name), owner=identity)
    since = certificate.metadata.creation_timestamp
    assert since is not None
    if ctx.now() >= since + LIFETIME:
        await ctx.delete(certificate)


async def scenario(user: Cluster) -> None:
    await user.create(Identity.new("shop", Spec()))
    await user.settled()


def exploration(reconcile: Any) -> Exploration:
    return Exploration(scenario, lambda: [Controller(Identity, reconcile, owns(ConfigMap))])


broken = exploration(replace_invalid)
fixed = exploration(replace_expired)
expected = Expected("endless loop", "create", "ConfigMap")
