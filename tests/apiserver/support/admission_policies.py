"""Minimal valid admission policies and bindings."""

from typing import Any

from tests.apiserver.support.in_process_server import InProcessServer

__all__ = [
    "BINDINGS",
    "MUTATING",
    "MUTATING_BINDINGS",
    "VALIDATING",
    "binding",
    "enforce_policy",
    "mutating",
    "request",
    "rule",
    "validating",
]

API = "/apis/admissionregistration.k8s.io/v1"
VALIDATING = f"{API}/validatingadmissionpolicies"
BINDINGS = f"{API}/validatingadmissionpolicybindings"
MUTATING = f"{API}/mutatingadmissionpolicies"
MUTATING_BINDINGS = f"{API}/mutatingadmissionpolicybindings"


def rule(*resources: str, groups: tuple[str, ...] = ("",), versions: tuple[str, ...] = ("v1",), **more: Any) -> Any:
    words = {"apiGroups": list(groups), "apiVersions": list(versions), "operations": ["CREATE", "UPDATE"]}
    return {**words, "resources": list(resources or ("configmaps",)), **more}


def validating(*expressions: str | dict[str, Any], name: str = "p", match: Any = None, **spec: Any) -> Any:
    made = [{"expression": one} if isinstance(one, str) else one for one in expressions]
    whole = {"matchConstraints": match or {"resourceRules": [rule()]}, "validations": made, **spec}
    return {"metadata": {"name": name}, "spec": whole}


def mutating(*mutations: str | dict[str, Any], name: str = "m", match: Any = None, **spec: Any) -> Any:
    made = [_mutation(one) if isinstance(one, str) else one for one in mutations]
    whole = {"matchConstraints": match or {"resourceRules": [rule()]}, "mutations": made, "reinvocationPolicy": "Never"}
    return {"metadata": {"name": name}, "spec": {**whole, **spec}}


def _mutation(expression: str) -> Any:
    if expression.lstrip().startswith("["):
        return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def binding(policy: str = "p", name: str = "b", actions: tuple[str, ...] | None = ("Deny",), **spec: Any) -> Any:
    acts = {} if actions is None else {"validationActions": list(actions)}
    return {"metadata": {"name": name}, "spec": {"policyName": policy, **acts, **spec}}


def request(tree: Any) -> Any:
    """The admission request for the creation of a ConfigMap."""
    place = {"group": "", "version": "v1", "resource": "configmaps"}
    made = {"uid": "u", "operation": "CREATE", "resource": place, "requestResource": place, "oldObject": None}
    return {**made, "name": "a", "namespace": "default", "object": tree, "userInfo": {"username": "x"}}


async def enforce_policy(api: InProcessServer, policy: Any, **more: Any) -> None:
    """Creates a policy and one binding of the same name."""
    name = policy["metadata"]["name"]
    changes = "mutations" in policy["spec"]
    if changes:
        more["actions"] = None
    await api.create(MUTATING if changes else VALIDATING, policy)
    await api.create(MUTATING_BINDINGS if changes else BINDINGS, binding(name, name, **more))
