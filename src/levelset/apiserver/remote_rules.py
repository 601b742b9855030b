"""What a webhook in a configuration is for: its rules, its selectors, and how it wants to be asked; pure.

A configuration is data of whoever wrote it; what is asked of it here never fails on a configuration that the server
has accepted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from levelset.apiserver.match_conditions import Condition, read_conditions
from levelset.apiserver.match_resources import MatchResources, read_match
from levelset.apiserver.members import items, part
from levelset.apiserver.world import Tree

__all__ = ["RemoteWebhook", "read_webhooks"]

_GROUP: Final = "admissionregistration.k8s.io"
_VERSIONS: Final = ("v1", "v1beta1")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteWebhook:
    """One webhook of a configuration."""

    name: str
    configuration: str
    mutates: bool
    match: MatchResources
    client: Mapping[str, Any]
    conditions: tuple[Condition, ...]
    may_fail: bool
    reinvokes: bool
    seconds: float
    version: str
    """The version of AdmissionReview that is sent."""
    has_effects: bool
    """Whether it may do something besides answering even in a dry run, so that it must not be asked then."""

    def matches(self, operation: str, place: tuple[str, str, str], subresource: str) -> bool:
        """Whether some rule is for this; configurations of admission are nobody's business but their own."""
        if place[0] == _GROUP:
            return False
        return self.match.matches(operation, place, subresource)

    def wants(self, request: Tree, space: Tree | None) -> bool:
        """Whether its scopes and selectors pick the object of this request, in this namespace."""
        return self.match.wants(request, space)


def read_webhooks(configuration: Tree, *, mutates: bool) -> tuple[RemoteWebhook, ...]:
    """The webhooks of a configuration, in its order."""
    name = configuration["metadata"]["name"]
    return tuple(_read(one, name, mutates=mutates) for one in items(configuration, "webhooks"))


def _read(hook: Tree, configuration: str, *, mutates: bool) -> RemoteWebhook:
    return RemoteWebhook(
        name=str(hook.get("name", "")),
        configuration=configuration,
        mutates=mutates,
        match=read_match({**hook, "resourceRules": items(hook, "rules")}),
        client=part(hook, "clientConfig"),
        conditions=read_conditions(items(hook, "matchConditions")),
        may_fail=hook.get("failurePolicy") == "Ignore",
        reinvokes=hook.get("reinvocationPolicy") == "IfNeeded",
        seconds=float(hook.get("timeoutSeconds") or 10),
        version=next((one for one in hook.get("admissionReviewVersions") or () if one in _VERSIONS), "v1"),
        has_effects=hook.get("sideEffects") not in ("None", "NoneOnDryRun"),
    )
