"""ClusterRoles that collect the rules of others: whenever one of those changes, so do they."""

from levelset.apiserver.authz.rbac import GROUP, VERSION, Rbac
from levelset.apiserver.controllers.key_queue import Worker
from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.verbs import create_and_update
from levelset.objects import LabelSelector, encode_tree

__all__ = ["RoleAggregation", "collected_rules"]


class RoleAggregation:
    """Writes into every ClusterRole with an `aggregationRule` the rules of those that its selectors find."""

    def __init__(self, world: World, rbac: Rbac) -> None:
        self._world = world
        self._rbac = rbac
        self.worker: Worker[str] = Worker("aggregation of roles", self._collect)

    def start(self) -> None:
        """Looks at all roles that are there, and from then on whenever one is written."""
        self._world.follow(self._kind().prefix, self._stored)
        self._look()
        self.worker.start()

    async def stop(self) -> None:
        """Ends the task."""
        await self.worker.stop()

    def _kind(self) -> ServedResource:
        found = self._world.catalog.find(GROUP, VERSION, "clusterroles")
        assert found is not None  # built in
        return found

    def _stored(self, _served: ServedResource, _before: Object | None, _after: Object | None) -> None:
        self._look()

    def _look(self) -> None:
        for name, tree in self._rbac.cluster_roles.items():
            if tree.get("aggregationRule"):
                self.worker.add(name)

    async def _collect(self, name: str) -> None:
        def change(tree: Object) -> Object | None:
            if not tree.get("aggregationRule"):
                return None
            rules = collected_rules(tree, self._rbac.cluster_roles)
            return None if rules == items(tree, "rules") else {**tree, "rules": rules}

        await create_and_update.mutate(self._world, self._kind(), None, name, change)


def collected_rules(role: Object, others: dict[str, Object]) -> list[Object]:
    """The rules of all roles that its selectors find, each once, in the order of selectors and names.

    A role that collects rules itself stands for those that it finds, not for what was last written into it: so it does
    not matter which of them is written first, roles that collect each other come to an end, and none of them keeps
    what nobody gives any more.
    """
    found: dict[bytes, Object] = {}
    seen: set[str] = set()
    waiting = [role["metadata"]["name"]]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        tree = role if name == role["metadata"]["name"] else others[name]
        if tree.get("aggregationRule"):
            waiting += reversed(_selected(tree, others))
        else:
            for rule in items(tree, "rules"):
                found.setdefault(encode_tree(rule), rule)
    return list(found.values())


def _selected(role: Object, others: dict[str, Object]) -> list[str]:
    """The names of the roles that the selectors of a role find."""
    found: list[str] = []
    for tree in items(part(role, "aggregationRule"), "clusterRoleSelectors"):
        selector = LabelSelector.from_tree(tree)
        found += [name for name in sorted(others) if selector.matches(others[name]["metadata"].get("labels"))]
    return found
