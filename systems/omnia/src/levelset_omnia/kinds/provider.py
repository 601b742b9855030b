"""Provider: a model provider that several agents share, with its endpoint, model and key."""

from typing import Annotated, Literal

from msgspec import field

from levelset import Column, Condition, ListMap, Meta, Resource, Spec, Status
from levelset.objects import Model
from levelset_omnia.well_known import API

__all__ = [
    "Provider",
    "ProviderConfig",
    "ProviderDefaults",
    "ProviderSpec",
    "ProviderStatus",
    "ProviderType",
    "SecretKeyRef",
    "SecretRef",
]

ProviderType = Literal["auto", "claude", "openai", "gemini"]
Name = Annotated[str, Meta(min_length=1, max_length=253)]
Number = Annotated[str, Meta(pattern=r"^[0-9]+(\.[0-9]+)?$", max_length=32)]
Url = Annotated[str, Meta(pattern=r"^https?://[^\s/]\S*$", max_length=2048)]


class SecretRef(Model):
    """A Secret in the same namespace."""

    name: Name


class SecretKeyRef(Model):
    """A key of a Secret in the same namespace."""

    name: Name
    key: Annotated[str, Meta(min_length=1, max_length=253)] | None = None
    """Without it, the key that is usual for the type, such as OPENAI_API_KEY, or `api-key`."""


class ProviderDefaults(Model):
    """How a model answers; numbers are texts, as upstream has them."""

    temperature: Number | None = None
    top_p: Number | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None


class ProviderConfig(Model):
    """A model provider as part of an agent."""

    type: ProviderType | None = None
    """`auto`, or none: the type follows from the endpoint and the key."""
    model: str | None = None
    secret_ref: SecretRef | None = None
    base_url: Url | None = field(default=None, name="baseURL")
    config: ProviderDefaults | None = None


class ProviderSpec(Spec):
    """The desired state of a provider."""

    type: ProviderType
    secret_ref: SecretKeyRef
    model: str | None = None
    base_url: Url | None = field(default=None, name="baseURL")
    defaults: ProviderDefaults | None = None


class ProviderStatus(Status):
    """The observed state of a provider."""

    phase: Literal["Ready", "Error"] | None = None
    secret_version: str | None = None
    """The resourceVersion of its Secret: agents are rolled out again when it changes."""
    conditions: Annotated[tuple[Condition, ...], ListMap("type")] = ()
    observed_generation: int | None = None


class Provider(
    Resource[ProviderSpec, ProviderStatus],
    api=API,
    short_names=["prov"],
    columns=[
        Column("Type", ".spec.type"),
        Column("Model", ".spec.model"),
        Column("Phase", ".status.phase"),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ],
):
    """A model provider that several agents share."""
