"""PromptPack: prompts in a ConfigMap, with a version, and with how a new version comes to the agents."""

from datetime import datetime
from typing import Annotated, Literal

from levelset import Column, Condition, ListMap, Meta, Model, Resource, Spec, Status
from levelset.objects import MicroTime
from levelset_omnia.durations import Duration
from levelset_omnia.naming import API
from levelset_omnia.versions import SEMVER

__all__ = [
    "Canary",
    "ConfigMapRef",
    "PromptPack",
    "PromptPackSpec",
    "PromptPackStatus",
    "Revision",
    "Rollout",
    "Source",
]

Percent = Annotated[int, Meta(ge=0, le=100)]


class ConfigMapRef(Model):
    """A ConfigMap in the same namespace."""

    name: Annotated[str, Meta(min_length=1, max_length=253)]


class Source(Model):
    """Where the prompts are."""

    type: Literal["configmap"] = "configmap"
    config_map_ref: ConfigMapRef | None = None


class Canary(Model):
    """How the share of a new version grows."""

    weight: Percent = 10
    """The share that it begins with, in percent."""
    step_weight: Annotated[int, Meta(ge=1, le=100)] = 10
    """How much is added after each interval."""
    interval: Duration = "5m"


class Rollout(Model):
    """How a new version comes to the agents: to all of them at once, or to a growing share."""

    type: Literal["immediate", "canary"] = "immediate"
    canary: Canary | None = None


class PromptPackSpec(Spec):
    """What somebody wants of a pack."""

    source: Source
    version: Annotated[str, Meta(pattern=SEMVER, max_length=128)]
    """A semantic version, with or without a leading v."""
    rollout: Rollout = Rollout()


class Revision(Model):
    """One version of a pack as agents use it: which ConfigMap, and a hash of what is in it."""

    version: str
    config_map: str
    hash: str = ""


class PromptPackStatus(Status):
    """How a pack is, and how far the rollout of its version has come."""

    phase: Literal["Pending", "Active", "Canary", "Superseded", "Failed"] | None = None
    active_version: str | None = None
    canary_version: str | None = None
    canary_weight: Percent | None = None
    active: Revision | None = None
    canary: Revision | None = None
    step_started_at: MicroTime | None = None
    """When the present weight began: the next step follows an interval later, whoever runs the operator then."""
    last_updated: datetime | None = None
    conditions: Annotated[tuple[Condition, ...], ListMap("type")] = ()
    observed_generation: int | None = None


class PromptPack(
    Resource[PromptPackSpec, PromptPackStatus],
    api=API,
    short_names=["pp"],
    columns=[
        Column("Version", ".spec.version"),
        Column("Phase", ".status.phase"),
        Column("Strategy", ".spec.rollout.type"),
        Column("Weight", ".status.canaryWeight", "integer", priority=1),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ],
):
    """Prompts that agents use, in a ConfigMap, with a version."""
