"""The admission policies of a server and their bindings, kept in its chain of admitters.

A policy is in force as soon as there is a policy and a binding that names it, and until one of the two is gone: for the
next request, because the index hears of a write before the writer has its answer. Policies are asked in the order of
their names, and their bindings in the order of theirs.
"""

from typing import TYPE_CHECKING, Final

from levelset.apiserver.admission.chain import Chain
from levelset.apiserver.admission.policies.params import ParamKind, read_param_kind
from levelset.apiserver.resources.json_members import part
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree, World
from levelset.objects import decode_tree
from levelset.objects.json_tree import is_map

if TYPE_CHECKING:
    from levelset.apiserver.admission.policies.bound_policy import BoundPolicy

__all__ = ["GROUP", "VERSION", "Policies"]

GROUP: Final = "admissionregistration.k8s.io"
VERSION: Final = "v1"
_BINDINGS: Final = {
    "mutatingadmissionpolicybindings": "mutatingadmissionpolicies",
    "validatingadmissionpolicybindings": "validatingadmissionpolicies",
}


class Policies:
    """All policies and bindings of a world; those that are in force stand in its chain."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.stored: dict[str, dict[str, Tree]] = {plural: {} for plural in (*_BINDINGS, *_BINDINGS.values())}
        """Policies and bindings by resource and name, as they are stored: look, do not touch."""
        self._active: dict[tuple[str, str], BoundPolicy] = {}

    def is_binding(self, plural: str) -> bool:
        """Whether this is a resource of bindings."""
        return plural in _BINDINGS

    def param_kind(self, plural: str, binding: Tree) -> ParamKind | None:
        """The kind of parameters that the policy of a binding wants; None if it wants none, or is not there."""
        policy = self.stored[_BINDINGS[plural]].get(_policy_name(binding))
        return read_param_kind(part(policy, "spec").get("paramKind"))

    async def start(self) -> None:
        """Takes in what is stored, and follows what comes and goes."""
        for plural, known in self.stored.items():
            served = self._world.catalog.find(GROUP, VERSION, plural)
            assert served is not None  # it is built in
            self._world.follow(served.prefix, self._changed)
            page = await self._world.storage.list(served.prefix)
            trees = (decode_tree(item.value) for item in page.items)
            known.update({tree["metadata"]["name"]: tree for tree in trees if is_map(tree)})
        for bindings, policies in _BINDINGS.items():
            for name in {_policy_name(one) for one in self.stored[bindings].values()}:
                self._bind(policies, name)

    def _changed(self, served: ServedResource, before: Tree | None, after: Tree | None) -> None:
        known, name = self.stored[served.plural], (after or before or {})["metadata"]["name"]
        if after is None:
            known.pop(name, None)
        else:
            known[name] = after
        if before is not None and after is not None and part(before, "spec") == part(after, "spec"):
            return  # only its labels or its status
        policies = _BINDINGS.get(served.plural)
        if policies is None:
            self._bind(served.plural, name)
            return
        # A binding may have been moved to another policy.
        for policy in {_policy_name(one) for one in (before, after) if one is not None}:
            self._bind(policies, policy)

    def _bind(self, plural: str, name: str) -> None:
        """Puts one policy into the chain as it is now, or takes it out."""
        gone = self._active.pop((plural, name), None)
        made = self._made(plural, name)
        if made is not None:
            self._active[plural, name] = made
        if gone is None and made is None:
            return
        chain = self._world.admission or Chain()
        others = chain.without(self._active.values() if gone is None else [gone, *self._active.values()])
        now = [self._active[key] for key in sorted(self._active)]
        self._world.admission = others.with_more(now).or_none()

    def _made(self, plural: str, name: str) -> "BoundPolicy | None":
        policy = self.stored[plural].get(name)
        is_mutating = plural == "mutatingadmissionpolicies"
        bindings = self.stored[
            "mutatingadmissionpolicybindings" if is_mutating else "validatingadmissionpolicybindings"
        ]
        found = [bindings[one] for one in sorted(bindings) if _policy_name(bindings[one]) == name]
        if policy is None or not found:
            return None
        # Late: expressions need their compiler, which takes a while to load, and most servers have no policies.
        if is_mutating:
            from levelset.apiserver.admission.policies.mutating import MutatingPolicy  # noqa: PLC0415

            return MutatingPolicy(self._world, policy, found)
        from levelset.apiserver.admission.policies.validating import ValidatingPolicy  # noqa: PLC0415

        return ValidatingPolicy(self._world, policy, found)


def _policy_name(binding: Tree) -> str:
    return str(part(binding, "spec").get("policyName"))
