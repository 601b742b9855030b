"""Registers webhooks in a cluster: the webhook configurations and CRD conversions, as plain data or applied at once."""

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Any, Final

from levelset.client.client import Client
from levelset.errors import ConfigError
from levelset.objects.kind_definition import definition_of
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.runtime.webhook.admission import AdmissionHook
from levelset.runtime.webhook.client_config import ClientConfig, Service
from levelset.runtime.webhook.conversion import Conversions
from levelset.runtime.webhook.review_handler import CONVERT_PATH
from levelset.runtime.webhook.webhook_set import Webhooks

__all__ = ["MANAGER", "configurations", "conversion_patches", "permissions", "register", "unregister"]

MANAGER: Final = "levelset-webhooks"
"""The field manager of everything that is registered."""

_API: Final = "admissionregistration.k8s.io/v1"
_DEFINITION: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")

Tree = dict[str, Any]


def configurations(
    webhooks: Webhooks, *, ca: bytes | None = None, client_config: ClientConfig | None = None
) -> list[Tree]:
    """The MutatingWebhookConfiguration and ValidatingWebhookConfiguration; without those that would be empty."""
    where = webhooks.client_config if client_config is None else client_config
    made: list[Tree] = []
    for kind, mutates in (("MutatingWebhookConfiguration", True), ("ValidatingWebhookConfiguration", False)):
        entries = [_entry(one, where, ca) for one in webhooks.hooks if one.mutates is mutates]
        if entries:
            made.append({"apiVersion": _API, "kind": kind, "metadata": {"name": webhooks.name}, "webhooks": entries})
    return made


def conversion_patches(
    webhooks: Webhooks, *, ca: bytes | None = None, client_config: ClientConfig | None = None
) -> list[Tree]:
    """The conversion part of the CRD of each kind with several versions.

    Apply it with a field manager of its own, or merge it into the CRD.
    """
    where = webhooks.client_config if client_config is None else client_config
    webhook = {"clientConfig": where.config(CONVERT_PATH, ca), "conversionReviewVersions": ["v1"]}
    spec = {"conversion": {"strategy": "Webhook", "webhook": webhook}}
    return [
        {
            "apiVersion": _DEFINITION.api_version,
            "kind": _DEFINITION.kind,
            "metadata": {"name": f"{definition_of(versions[0]).plural}.{group}"},
            "spec": spec,
        }
        for (group, _), versions in Conversions(webhooks.conversions).kinds.items()
    ]


def permissions(webhooks: Webhooks, *, secret: str | None = None) -> list[Tree]:
    """The RBAC rules that `register`, and an authority in a Secret, need."""
    rules: list[Tree] = []
    kinds = {"MutatingWebhookConfiguration": "mutating", "ValidatingWebhookConfiguration": "validating"}
    for one in configurations(webhooks, client_config=Service("any", "any")):
        resource, named = f"{kinds[one['kind']]}webhookconfigurations", [webhooks.name]
        rules += _rules("admissionregistration.k8s.io", resource, named, verbs=["get", "patch"])
    patched = [one["metadata"]["name"] for one in conversion_patches(webhooks, client_config=Service("any", "any"))]
    if patched:
        rules += _rules(_DEFINITION.group, "customresourcedefinitions", patched, verbs=["get", "patch"], creates=False)
    if secret is not None:
        rules += _rules("", "secrets", [secret], verbs=["get", "update"])
    return rules


async def register(client: Client, webhooks: Webhooks, *, ca: bytes | None = None) -> Sequence[str]:
    """Applies the configurations and CRD conversions by server-side apply; returns the names of what was applied.

    ConfigError if a CRD that needs a conversion is not installed. Without a `ca`, something else (such as cert-manager)
    must inject the CA bundle.
    """
    patches = conversion_patches(webhooks, ca=ca)
    for one in patches:
        ref: Ref[Any] = Ref(_DEFINITION, one["metadata"]["name"])
        if await client.find(ref) is None:
            raise ConfigError(f"{ref} is not installed: install the CRDs before their conversion webhooks")
    applied: list[str] = []
    for tree in (*patches, *configurations(webhooks, ca=ca)):
        await client.apply(tree, manager=MANAGER, force=True)
        applied.append(f"{tree['kind']}/{tree['metadata']['name']}")
    return applied


async def unregister(client: Client, webhooks: Webhooks) -> None:
    """Deletes the webhook configurations from the cluster; it is no error if they do not exist.

    The conversions in CRDs stay: objects that cannot be read are better than objects that are read wrongly.
    """
    for tree in configurations(webhooks):
        ref: Ref[Any] = Ref(GroupVersionKind.of(tree["apiVersion"], tree["kind"]), tree["metadata"]["name"])
        await client.delete(ref, missing_ok=True)


def _entry(hook: AdmissionHook, client_config: ClientConfig, ca: bytes | None) -> Tree:
    entry: Tree = {
        "name": hook.name,
        "clientConfig": client_config.config(hook.path, ca),
        "rules": [_rule(hook)],
        "admissionReviewVersions": ["v1"],
        "sideEffects": hook.side_effects,
        "failurePolicy": hook.failure_policy,
        "matchPolicy": "Equivalent",
        "timeoutSeconds": ceil(hook.timeout),
    }
    if hook.mutates:
        entry["reinvocationPolicy"] = "IfNeeded" if hook.reinvokes else "Never"
    for name, selector in (("namespaceSelector", hook.namespace_selector), ("objectSelector", hook.object_selector)):
        if selector is not None:
            entry[name] = selector.to_tree() or {}
    conditions = [{"name": name, "expression": cel} for name, cel in hook.expressions.items()]
    return {**entry, "matchConditions": conditions} if conditions else entry


def _rule(hook: AdmissionHook) -> Tree:
    parts = hook.subresources or ("",)
    scope = "*" if hook.namespaced is None else "Namespaced" if hook.namespaced else "Cluster"
    return {
        "apiGroups": [hook.gvk.group],
        "apiVersions": [hook.gvk.version],
        "operations": [one.upper() for one in hook.operations],
        "resources": [f"{hook.plural}/{one}" if one else hook.plural for one in parts],
        "scope": scope,
    }


def _rules(
    group: str, resource: str, names: Sequence[str], *, verbs: Sequence[str], creates: bool = True
) -> Iterator[Tree]:
    """The rules for named objects; RBAC cannot restrict create by name, so that is a rule of its own."""
    base: Tree = {"apiGroups": [group], "resources": [resource]}
    yield {**base, "resourceNames": list(names), "verbs": list(verbs)}
    if creates:
        yield {**base, "verbs": ["create"]}
