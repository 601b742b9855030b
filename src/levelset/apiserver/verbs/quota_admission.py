"""ResourceQuota admission: a write that would use more than a quota allows is refused, and others are charged.

As upstream, the quota's status is updated before the object is written, with optimistic locking, so that of two
writers, also on two servers, only one gets what is left. What was charged in vain, because the write failed
afterwards, is counted again by the controller (`controllers/resource_quotas.py`), which also subtracts what is deleted.
"""

from typing import Final

from levelset.apiserver.registry.limits import quota_usage
from levelset.apiserver.registry.limits.pod_resources import Amounts, add
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.json_members import map_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.apiserver.verbs import commit
from levelset.apiserver.wire import status_errors
from levelset.storage import Item, Mismatch

__all__ = ["charge_quotas"]

# Of these, an update may use more than before; all other kinds are only counted.
_MEASURED: Final = frozenset({"persistentvolumeclaims", "pods", "services"})


async def charge_quotas(
    state: ServerState,
    served: ServedResource,
    namespace: str,
    tree: Tree,
    *,
    old: Tree | None = None,
    dry_run: bool = False,
) -> None:
    """Charges the quotas of the namespace with a write; raises Forbidden if one of them does not allow it.

    A dry run is only checked.
    """
    if old is not None and (served.group or served.plural not in _MEASURED):
        return
    quotas = state.catalog.find("", "v1", "resourcequotas")
    assert quotas is not None  # built in
    for item in state.reader.list_nowait(quotas.prefix_in(namespace)).items:
        await _charge(state, quotas, item, served, tree, old=old, dry_run=dry_run)


async def _charge(
    state: ServerState,
    quotas: ServedResource,
    item: Item | None,
    served: ServedResource,
    tree: Tree,
    *,
    old: Tree | None,
    dry_run: bool,
) -> None:
    while item is not None:
        quota = served_tree(quotas, item)
        more = quota_usage.requested(quota, served, tree, old, state.now())
        name = tree["metadata"].get("name", "")
        if more and old is None and served.prefix == "/registry/core/pods/":
            missing = quota_usage.missing_resources(quota, tree)
            if missing:
                problem = f"failed quota: {quota['metadata']['name']}: {missing}"
                raise status_errors.forbidden(served, name, problem)
        problem = quota_usage.exceeded(quota, more)
        if problem:
            raise status_errors.forbidden(served, name, problem)
        if not more or dry_run:
            return
        try:
            await commit.write(state, quotas, item.key, _charged(quota, more), item=item, old=quota)
        except Mismatch:
            item = state.reader.get_nowait(item.key)
            continue
        return


def _charged(quota: Object, more: Amounts) -> Object:
    used = add(quota_usage.used_amounts(quota), more)
    status = map_member(quota, "status")
    return {
        **quota,
        "metadata": {**quota["metadata"]},
        "status": {**status, "used": {name: str(value) for name, value in used.items()}},
    }
