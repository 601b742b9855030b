"""Tells in the status of ValidatingAdmissionPolicies what their expressions say about fields that do not exist."""

from levelset.apiserver.admission.policies.policy_index import GROUP, VERSION, Policies
from levelset.apiserver.controllers.key_queue import Worker
from levelset.apiserver.resources.json_members import part
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.verbs import create_and_update

__all__ = ["PolicyStatus"]

PLURAL = "validatingadmissionpolicies"


class PolicyStatus:
    """Writes `status.typeChecking` and `status.observedGeneration` whenever a policy has changed."""

    def __init__(self, world: World, policies: Policies) -> None:
        self._world = world
        self._policies = policies
        self.worker: Worker[str] = Worker("status of policies", self._tell)

    def start(self) -> None:
        """Looks at all policies that are there, and from then on whenever one is written."""
        self._world.follow(self._kind().prefix, self._stored)
        for tree in self._policies.stored[PLURAL].values():
            self._look(tree)
        self.worker.start()

    async def stop(self) -> None:
        """Ends the task."""
        await self.worker.stop()

    def _kind(self) -> ServedResource:
        found = self._world.catalog.find(GROUP, VERSION, PLURAL)
        assert found is not None  # built in
        return found

    def _stored(self, _served: ServedResource, _before: Object | None, after: Object | None) -> None:
        if after is not None:
            self._look(after)

    def _look(self, tree: Object) -> None:
        if part(tree, "status").get("observedGeneration") != tree["metadata"].get("generation"):
            self.worker.add(tree["metadata"]["name"])

    async def _tell(self, name: str) -> None:
        # Late: the compiler takes a while to load, and most servers have no policies.
        from levelset.apiserver.admission.policies.type_checking import expression_warnings  # noqa: PLC0415

        def change(tree: Object) -> Object | None:
            generation = tree["metadata"].get("generation")
            status = part(tree, "status")
            if status.get("observedGeneration") == generation:
                return None
            warnings = expression_warnings(self._world.catalog, tree)
            told = {"expressionWarnings": warnings} if warnings else {}
            return {**tree, "status": {**status, "observedGeneration": generation, "typeChecking": told}}

        await create_and_update.mutate(self._world, self._kind(), None, name, change)
