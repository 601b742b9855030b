"""PromptPack: prompts in a ConfigMap, with a version, and the rollout strategy for a new version."""

from datetime import datetime
from typing import Annotated, Literal

from levelset import Column, Condition, ListMap, Meta, Resource, Spec, Status
from levelset.objects import MicroTime, Model
from levelset_omnia.kinds.values import SEMVER, Duration
from levelset_omnia.well_known import API

__all__ = [
    "Canary",
    "ConfigMapRef",
    "PromptPack",
    "PromptPackSpec",
    "PromptPackStatus",
    "Revision",
    "Rollback",
    "RolledBack",
    "Rollout",
    "Source",
]

Percent = Annotated[int, Meta(ge=0, le=100)]


class ConfigMapRef(Model):
    """A ConfigMap in the same namespace."""

    name: Annotated[str, Meta(min_length=1, max_length=253)]


class Source(Model):
    """The source of the prompts."""

    type: Literal["configmap"] = "configmap"
    config_map_ref: ConfigMapRef | None = None


class Rollback(Model):
    """When a canary is rolled back by itself: once more than this share of its requests has failed."""

    max_error_rate: Percent = 10
    """The allowed share of failed requests, in percent."""
    min_requests: Annotated[int, Meta(ge=1)] = 20
    """The requests that are needed to judge."""


class Canary(Model):
    """The steps of a canary rollout."""

    weight: Percent = 10
    """The initial share, in percent."""
    step_weight: Annotated[int, Meta(ge=1, le=100)] = 10
    """The increment after each interval, in percent."""
    interval: Duration = "5m"
    rollback: Rollback | None = None
    """Without it, a canary is only ended by its spec."""


class Rollout(Model):
    """How a new version is rolled out to the agents: to all of them at once, or to a growing share."""

    type: Literal["immediate", "canary"] = "immediate"
    canary: Canary | None = None


class PromptPackSpec(Spec):
    """The desired state of a pack."""

    source: Source
    version: Annotated[str, Meta(pattern=SEMVER, max_length=128)]
    """A semantic version, with or without a leading v."""
    rollout: Rollout = Rollout()


class Revision(Model):
    """One version of a pack as agents use it: its ConfigMap, and the hash of its content."""

    version: str
    config_map: str
    hash: str = ""


class RolledBack(Model):
    """A revision that was rolled back, and why; it is not tried again until its version or content changes."""

    revision: Revision
    requests: int
    errors: int


class PromptPackStatus(Status):
    """The observed state of a pack, and the progress of its rollout."""

    phase: Literal["Pending", "Active", "Canary", "Superseded", "Failed"] | None = None
    active_version: str | None = None
    canary_version: str | None = None
    canary_weight: Percent | None = None
    active: Revision | None = None
    canary: Revision | None = None
    rolled_back: RolledBack | None = None
    step_started_at: MicroTime | None = None
    """When the present weight began; the next step follows an interval later, also after a restart of the operator."""
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
