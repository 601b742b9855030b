"""Who makes a policy or a binding must be allowed to read its parameters: expressions tell what is in them."""

from levelset.apiserver.attempts import Attempt
from levelset.apiserver.callers import Caller
from levelset.apiserver.catalog import Catalog
from levelset.apiserver.members import part
from levelset.apiserver.policy_params import ParamKind, read_param_kind
from levelset.apiserver.rbac import Rbac
from levelset.apiserver.schemas import wording
from levelset.apiserver.served import Object
from levelset.errors import Cause

__all__ = ["check_param_kind", "check_param_ref"]


def check_param_kind(rbac: Rbac, caller: Caller, catalog: Catalog, new: Object, old: Object | None) -> list[Cause]:
    """What speaks against a policy with these parameters, in the words of Kubernetes."""
    tree = part(part(new, "spec"), "paramKind")
    kind = read_param_kind(tree)
    if kind is None or part(part(old, "spec"), "paramKind") == tree:
        return []
    if rbac.allows(caller, Attempt("get", *_place(catalog, kind), "", "*", "*")):
        return []
    what = f"all objects of the referenced paramKind (kind={kind.kind}, apiVersion={tree.get('apiVersion')})"
    return [wording.forbidden("spec.paramKind", f'user {caller.name} must have "get" permission on {what}')]


def check_param_ref(
    rbac: Rbac, caller: Caller, catalog: Catalog, new: Object, old: Object | None, *, kind: ParamKind | None
) -> list[Cause]:
    """What speaks against a binding with these parameters; `kind` is that of its policy, None if it has none."""
    spec = part(new, "spec")
    ref, before = part(spec, "paramRef"), part(part(old, "spec"), "paramRef")
    if not ref or (before == ref and part(old, "spec").get("policyName") == spec.get("policyName")):
        return []
    # Of a policy that is not there yet nobody knows what kind it will want.
    place = ("*", "*") if kind is None else _place(catalog, kind)
    name, namespace = str(ref.get("name") or "*"), str(ref.get("namespace") or "*")
    if rbac.allows(caller, Attempt("get", *place, "", namespace, name)):
        return []
    text = f'user {caller.name} does not have "get" permission on the object referenced by paramRef'
    return [wording.forbidden("spec.paramRef", f"{text} (name={name}, namespace={namespace})")]


def _place(catalog: Catalog, kind: ParamKind) -> tuple[str, str]:
    """Group and resource of a kind; of one that is not served, all resources of its group."""
    served = catalog.by_gvk(kind.group, kind.version, kind.kind)
    return kind.group, "*" if served is None else served.plural
