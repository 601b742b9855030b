"""The controller of Providers: watches the Secret with the key, and writes the status, which is a pure function."""

from collections.abc import Iterator
from datetime import datetime

from levelset import Action, Context, Controller, OnlyMetadata, Ref, references, requeue
from levelset.kinds.core_v1 import Secret
from levelset.objects import PartialObjectMetadata
from levelset_omnia.conditions import Conditions
from levelset_omnia.kinds import Provider, ProviderStatus
from levelset_omnia.options import Options

__all__ = ["provider_status", "providers_controller"]


def providers_controller(options: Options | None = None) -> Controller[Provider]:
    """The controller of Providers."""
    chosen = options or Options()

    async def reconcile(provider: Provider, ctx: Context) -> Action | None:
        secret = await ctx.find(OnlyMetadata(Secret), provider.spec.secret_ref.name, namespace=provider.namespace)
        status = provider_status(provider, secret, now=ctx.now())
        await ctx.set_status(provider, status)
        if status.phase == "Error" and (provider.status is None or provider.status.phase != "Error"):
            ctx.record(provider, "SecretNotFound", status.conditions[0].message, warning=True)
        return requeue(chosen.dependency_seconds) if secret is None else None

    return Controller(
        Provider,
        reconcile,
        references(Secret, _secret, metadata_only=True),
        name="providers",
        concurrency=chosen.workers,
        backoff=chosen.backoff,
    )


def _secret(provider: Provider) -> Iterator[Ref[Secret]]:
    yield Ref(Secret, provider.spec.secret_ref.name, provider.namespace)


def provider_status(provider: Provider, secret: PartialObjectMetadata | None, *, now: datetime) -> ProviderStatus:
    """The status that a Provider should have; only the metadata of its Secret is read."""
    before = provider.status or ProviderStatus()
    name = provider.spec.secret_ref.name
    conditions = Conditions(before.conditions, now, provider.metadata.generation)
    if secret is None:
        message = f"Secret {name} does not exist; create it with the key of the provider"
        conditions = conditions.set("SecretFound", False, "SecretNotFound", message)
    else:
        conditions = conditions.set("SecretFound", True, "SecretFound", f"Secret {name} exists")
    return ProviderStatus(
        phase="Error" if secret is None else "Ready",
        secret_version=None if secret is None else secret.metadata.resource_version,
        conditions=conditions.items,
        observed_generation=provider.metadata.generation,
    )
