"""Deletes by name, without checking the owner.

Modelled on seaweedfs/seaweedfs-operator#377 (Secrets are adopted, overwritten and deleted by name alone) and
cert-manager/cert-manager#9030. A cleanup may run again after another writer has reused the name. The fix checks the
owner reference and deletes with the uid of the object that was read.
"""

from levelset import Context, Controller, Ref, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Credentials", "broken", "expected", "fixed"]


class Credentials(Resource[Spec, Status], api="zoo.example.dev/v1", plural="credentials"):
    """Credentials with a secret of the same name, which is deleted with them."""


async def reconcile(credentials: Credentials, ctx: Context) -> None:
    if await ctx.live(secret_of(credentials)) is None:
        await ctx.create(config_map(credentials, credentials.name), owner=credentials)


async def delete_by_name(credentials: Credentials, ctx: Context) -> None:
    await ctx.delete(secret_of(credentials))


async def delete_owned(credentials: Credentials, ctx: Context) -> None:
    secret = await ctx.live(secret_of(credentials))
    if secret is not None and any(one.uid == credentials.metadata.uid for one in secret.metadata.owner_references):
        await ctx.delete(secret)


def secret_of(credentials: Credentials) -> Ref[ConfigMap]:
    return Ref(ConfigMap, credentials.name, credentials.namespace)


async def scenario(user: Cluster) -> None:
    credentials = await user.create(Credentials.new("admin", Spec()))
    secret = secret_of(credentials)
    await user.until(secret)
    await user.delete(credentials.ref)
    await user.until_gone(secret)
    await user.create(config_map(credentials, secret.name, password="mine"))  # the name is free again
    await user.until_gone(credentials.ref)


broken = Exploration(scenario, lambda: [Controller(Credentials, reconcile, cleanup=delete_by_name)])
fixed = Exploration(scenario, lambda: [Controller(Credentials, reconcile, cleanup=delete_owned)])
expected = Expected("end state", "delete", "ConfigMap")
