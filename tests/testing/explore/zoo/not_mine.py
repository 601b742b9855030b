"""Deletes by name, without a look at whose it is.

Modelled on seaweedfs/seaweedfs-operator#377 (Secrets are adopted, overwritten and deleted by name alone) and
cert-manager/cert-manager#9030. A cleanup may run again, and by then somebody else may have taken the name. What is
deleted is the object that was looked at, with its uid.
"""

from levelset import Context, Controller, Ref, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.habitat import ConfigMap, Expected, config_map

__all__ = ["Credentials", "broken", "expected", "fixed"]


class Credentials(Resource[Spec, Status], api="zoo.example.dev/v1", plural="credentials"):
    """Wants a secret of the same name, and takes it along when it goes."""


async def reconcile(credentials: Credentials, ctx: Context) -> None:
    if await ctx.live(secret_of(credentials)) is None:
        await ctx.create(config_map(credentials, credentials.name), owner=credentials)


async def delete_by_name(credentials: Credentials, ctx: Context) -> None:
    await ctx.delete(secret_of(credentials))


async def delete_what_is_ours(credentials: Credentials, ctx: Context) -> None:
    secret = await ctx.live(secret_of(credentials))
    if secret is not None and any(one.uid == credentials.metadata.uid for one in secret.metadata.owner_references):
        await ctx.delete(secret)


def secret_of(credentials: Credentials) -> Ref[ConfigMap]:
    return Ref(ConfigMap, credentials.name, credentials.namespace)


async def scenario(people: Cluster) -> None:
    credentials = await people.create(Credentials.new("admin", Spec()))
    secret = secret_of(credentials)
    await people.until(secret)
    await people.delete(credentials.ref)
    await people.until_gone(secret)
    await people.create(config_map(credentials, secret.name, password="mine"))  # the name is free again
    await people.until_gone(credentials.ref)


broken = Exploration(scenario, lambda: [Controller(Credentials, reconcile, cleanup=delete_by_name)])
fixed = Exploration(scenario, lambda: [Controller(Credentials, reconcile, cleanup=delete_what_is_ours)])
expected = Expected("end state", "delete", "ConfigMap")
