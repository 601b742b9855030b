"""The ClusterRole aggregation controller: fills ClusterRoles with an `aggregationRule` from the roles it selects."""

from levelset.apiserver.authz.rbac import GROUP, VERSION, RbacAuthorizer
from levelset.apiserver.controllers.key_queue import KeyQueue
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs import create_and_update
from levelset.objects import LabelSelector, encode_tree

__all__ = ["RoleAggregationController", "aggregated_rules"]


class RoleAggregationController:
    """Writes the aggregated rules into ClusterRoles whenever a ClusterRole changes."""

    def __init__(self, state: ServerState, rbac: RbacAuthorizer) -> None:
        self._state = state
        self._rbac = rbac
        self.queue: KeyQueue[str] = KeyQueue("role aggregation", self._reconcile)

    def start(self) -> None:
        """Enqueues all aggregated roles now, and whenever a ClusterRole is written."""
        self._state.add_resource_listener(self._kind().prefix, self._on_write)
        self._enqueue_aggregated()
        self.queue.start()

    async def stop(self) -> None:
        """Stops the queue."""
        await self.queue.stop()

    async def resume(self) -> None:
        """Reconciles from now on, beginning with all aggregated roles."""
        await self.queue.resume(())
        self._enqueue_aggregated()

    def _kind(self) -> ServedResource:
        found = self._state.catalog.find(GROUP, VERSION, "clusterroles")
        assert found is not None  # built in
        return found

    def _on_write(self, _served: ServedResource, _before: Object | None, _after: Object | None) -> None:
        self._enqueue_aggregated()

    def _enqueue_aggregated(self) -> None:
        for name, tree in self._rbac.cluster_roles.items():
            if tree.get("aggregationRule"):
                self.queue.add(name)

    async def _reconcile(self, name: str) -> None:
        def change(tree: Object) -> Object | None:
            if not tree.get("aggregationRule"):
                return None
            rules = aggregated_rules(tree, self._rbac.cluster_roles)
            return None if rules == list_member(tree, "rules") else {**tree, "rules": rules}

        await create_and_update.mutate(self._state, self._kind(), None, name, change)


def aggregated_rules(role: Object, others: dict[str, Object]) -> list[Object]:
    """Returns the distinct rules of all roles that the selectors match, in the order of selectors and names.

    A selected role that is aggregated itself is resolved through its own selectors, not through its stored rules. So
    the order of writes does not matter, roles that select each other terminate, and none of them retains stale rules.
    """
    found: dict[bytes, Object] = {}
    seen: set[str] = set()
    pending = [role["metadata"]["name"]]
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        tree = role if name == role["metadata"]["name"] else others[name]
        if tree.get("aggregationRule"):
            pending += reversed(_selected(tree, others))
        else:
            for rule in list_member(tree, "rules"):
                found.setdefault(encode_tree(rule), rule)
    return list(found.values())


def _selected(role: Object, others: dict[str, Object]) -> list[str]:
    """Returns the names of the roles that the selectors of a role match."""
    found: list[str] = []
    for tree in list_member(map_member(role, "aggregationRule"), "clusterRoleSelectors"):
        selector = LabelSelector.from_tree(tree)
        found += [name for name in sorted(others) if selector.matches(others[name]["metadata"].get("labels"))]
    return found
