"""The index of admission policies and bindings, which keeps the active policies in the admission chain.

A policy is active while the policy and a binding that names it exist. The index is notified of a write before the
writer gets its response, so the next request already sees it. Policies are called in the order of their names, their
bindings in the order of theirs.
"""

from typing import TYPE_CHECKING, Final

from levelset.apiserver.admission.chain import AdmissionChain
from levelset.apiserver.admission.policies.params import ParamKind, read_param_kind
from levelset.apiserver.resources.json_members import map_member
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.objects import decode_tree
from levelset.objects.json_tree import is_map

if TYPE_CHECKING:
    from levelset.apiserver.admission.policies.bound_policy import BoundPolicy

__all__ = ["GROUP", "VERSION", "PolicyIndex"]

GROUP: Final = "admissionregistration.k8s.io"
VERSION: Final = "v1"
_BINDINGS: Final = {
    "mutatingadmissionpolicybindings": "mutatingadmissionpolicies",
    "validatingadmissionpolicybindings": "validatingadmissionpolicies",
}


class PolicyIndex:
    """All stored policies and bindings; the active policies are in the admission chain of the server."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self.stored: dict[str, dict[str, Tree]] = {plural: {} for plural in (*_BINDINGS, *_BINDINGS.values())}
        """Policies and bindings by resource and name; shared, must not be modified."""
        self._active: dict[tuple[str, str], BoundPolicy] = {}

    def is_binding(self, plural: str) -> bool:
        """Whether the resource is one of the two kinds of bindings."""
        return plural in _BINDINGS

    def param_kind(self, plural: str, binding: Tree) -> ParamKind | None:
        """The paramKind of the policy that a binding names; None if it has none or does not exist."""
        policy = self.stored[_BINDINGS[plural]].get(_policy_name(binding))
        return read_param_kind(map_member(policy, "spec").get("paramKind"))

    async def start(self) -> None:
        """Loads the stored policies and bindings, and follows their writes from then on."""
        for plural, known in self.stored.items():
            served = self._state.catalog.find(GROUP, VERSION, plural)
            assert served is not None  # built in
            self._state.add_resource_listener(served.prefix, self._changed)
            page = await self._state.storage.list(served.prefix)
            trees = (decode_tree(item.value) for item in page.items)
            known.update({tree["metadata"]["name"]: tree for tree in trees if is_map(tree)})
        for bindings, policies in _BINDINGS.items():
            for name in {_policy_name(one) for one in self.stored[bindings].values()}:
                self._update(policies, name)

    def _changed(self, served: ServedResource, before: Tree | None, after: Tree | None) -> None:
        known, name = self.stored[served.plural], (after or before or {})["metadata"]["name"]
        if after is None:
            known.pop(name, None)
        else:
            known[name] = after
        if before is not None and after is not None and map_member(before, "spec") == map_member(after, "spec"):
            return  # only metadata or status changed
        policies = _BINDINGS.get(served.plural)
        if policies is None:
            self._update(served.plural, name)
            return
        # The write may have changed the policyName of the binding: both policies are affected.
        for policy in {_policy_name(one) for one in (before, after) if one is not None}:
            self._update(policies, policy)

    def _update(self, plural: str, name: str) -> None:
        """Replaces one policy in the admission chain by its current version, or removes it."""
        former = self._active.pop((plural, name), None)
        current = self._current(plural, name)
        if current is not None:
            self._active[plural, name] = current
        if former is None and current is None:
            return
        chain = self._state.admission or AdmissionChain()
        others = chain.without_plugins(self._active.values() if former is None else [former, *self._active.values()])
        policies = [self._active[key] for key in sorted(self._active)]
        self._state.admission = others.with_plugins(policies).or_none()

    def _current(self, plural: str, name: str) -> "BoundPolicy | None":
        policy = self.stored[plural].get(name)
        is_mutating = plural == "mutatingadmissionpolicies"
        bindings = self.stored[
            "mutatingadmissionpolicybindings" if is_mutating else "validatingadmissionpolicybindings"
        ]
        found = [bindings[one] for one in sorted(bindings) if _policy_name(bindings[one]) == name]
        if policy is None or not found:
            return None
        # Imported late: the CEL compiler takes a while to load, and most servers have no policies.
        if is_mutating:
            from levelset.apiserver.admission.policies.mutating import MutatingPolicy  # noqa: PLC0415

            return MutatingPolicy(self._state, policy, found)
        from levelset.apiserver.admission.policies.validating import ValidatingPolicy  # noqa: PLC0415

        return ValidatingPolicy(self._state, policy, found)


def _policy_name(binding: Tree) -> str:
    return str(map_member(binding, "spec").get("policyName"))
