"""Writes the type checking result of ValidatingAdmissionPolicies into their status."""

from functools import partial

from levelset.apiserver.admission.policies.policy_index import GROUP, VERSION, PolicyIndex
from levelset.apiserver.controllers.key_queue import KeyQueue
from levelset.apiserver.resources.json_members import map_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs import create_and_update
from levelset.apiserver.wire.step_limits import run_limited
from levelset.errors import ApiError

__all__ = ["PolicyStatusController"]

PLURAL = "validatingadmissionpolicies"


class PolicyStatusController:
    """Writes `status.typeChecking` and `status.observedGeneration` whenever the spec of a policy changes."""

    def __init__(self, state: ServerState, policies: PolicyIndex) -> None:
        self._state = state
        self._policies = policies
        self.queue: KeyQueue[str] = KeyQueue("policy status", self._reconcile)

    def start(self) -> None:
        """Enqueues all stored policies, and every policy that is written from then on."""
        self._state.add_resource_listener(self._kind().prefix, self._on_write)
        for tree in self._policies.stored[PLURAL].values():
            self._enqueue_if_outdated(tree)
        self.queue.start()

    async def stop(self) -> None:
        """Stops the queue."""
        await self.queue.stop()

    async def resume(self) -> None:
        """Reconciles from now on, beginning with the policies whose status is outdated."""
        await self.queue.resume(())
        for tree in self._policies.stored[PLURAL].values():
            self._enqueue_if_outdated(tree)

    def _kind(self) -> ServedResource:
        found = self._state.catalog.find(GROUP, VERSION, PLURAL)
        assert found is not None  # built in
        return found

    def _on_write(self, _served: ServedResource, _before: Object | None, after: Object | None) -> None:
        if after is not None:
            self._enqueue_if_outdated(after)

    def _enqueue_if_outdated(self, tree: Object) -> None:
        if map_member(tree, "status").get("observedGeneration") != tree["metadata"].get("generation"):
            self.queue.add(tree["metadata"]["name"])

    async def _reconcile(self, name: str) -> None:
        # Imported late: the CEL compiler is slow to import, and most servers have no policies.
        from levelset.apiserver.admission.policies.type_checking import expression_warnings  # noqa: PLC0415

        policy = self._policies.stored[PLURAL].get(name)
        if policy is None:
            return
        generation = policy["metadata"].get("generation")
        work = partial(expression_warnings, self._state.catalog, policy)
        try:
            warnings = await run_limited(self._state.expensive_work, work)
        except ApiError:  # it takes too long: types are only checked to warn
            warnings = []

        def change(tree: Object) -> Object | None:
            status = map_member(tree, "status")
            if status.get("observedGeneration") == generation or tree["metadata"].get("generation") != generation:
                return None  # written meanwhile, which enqueues it again
            type_checking = {"expressionWarnings": warnings} if warnings else {}
            return {**tree, "status": {**status, "observedGeneration": generation, "typeChecking": type_checking}}

        await create_and_update.mutate(self._state, self._kind(), None, name, change)
