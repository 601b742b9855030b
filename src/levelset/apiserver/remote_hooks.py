"""Webhooks at the other end of a connection, as configurations name them: asked before a write like any `Admitter`.

A configuration counts from the write that makes it until the one that removes it. The webhooks that may change objects
are asked in the order of the names of their configurations, and then in the order in which they stand there.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from levelset.apiserver.admission import Chain
from levelset.apiserver.match_conditions import Conditions, ConditionsFailed
from levelset.apiserver.policy_authorizer import authorizer_values
from levelset.apiserver.remote_reviews import BadAnswer, read_answer, write_review
from levelset.apiserver.remote_rules import RemoteWebhook, read_webhooks
from levelset.apiserver.remote_targets import Targets
from levelset.apiserver.served import Served
from levelset.apiserver.world import Tree, World
from levelset.errors import BadRequest, Forbidden, ServerFailed, Unreachable
from levelset.objects import decode_tree
from levelset.objects.trees import is_map

__all__ = ["RemoteHook", "RemoteHooks", "Values"]

Values = Callable[[Tree], Mapping[str, Any]]
"""What the conditions of webhooks may use besides the request they are given: whom they may ask."""

log = logging.getLogger(__name__)

_GROUP: Final = "admissionregistration.k8s.io"
_PLURALS: Final = {"mutatingwebhookconfigurations": True, "validatingwebhookconfigurations": False}


class RemoteHook:
    """One webhook of a configuration, as an `Admitter`."""

    __slots__ = ("_conditions", "_hook", "_targets", "_values")

    def __init__(self, hook: RemoteWebhook, targets: Targets, values: Values) -> None:
        self._hook = hook
        self._targets = targets
        self._conditions = Conditions(hook.conditions)
        self._values = values

    @property
    def name(self) -> str:
        """What a refusal is signed with."""
        return self._hook.name

    @property
    def mutates(self) -> bool:
        """Whether it may change the object."""
        return self._hook.mutates

    @property
    def reinvokes(self) -> bool:
        """Whether it wants to be asked once more if somebody after it has changed the object, too."""
        return self._hook.reinvokes

    def matches(self, operation: str, place: tuple[str, str, str], subresource: str, /) -> bool:
        """Whether one of its rules is for this operation on this resource."""
        return self._hook.matches(operation, place, subresource)

    async def review(self, request: Tree, space: Tree | None, /) -> Tree:
        """Asks the webhook, if its selectors and conditions pick the object, and does as its failure policy says."""
        hook, passed = self._hook, {"uid": request["uid"], "allowed": True}
        if not hook.wants(request, space) or not self._meets_conditions(request):
            return passed
        if request["dryRun"] and hook.has_effects:
            raise BadRequest(f'admission webhook "{hook.name}" does not support dry run')
        try:
            body = await self._targets.call(hook.client, write_review(hook, request), seconds=hook.seconds)
            return read_answer(hook, request["uid"], body)
        except (Unreachable, BadAnswer) as error:
            called = "" if isinstance(error, BadAnswer) else "failed to call webhook: "
            problem = f'failed calling webhook "{hook.name}": {called}{error}'
            log.warning("webhook failed", extra={"webhook": hook.name, "cause": str(error), "ignored": hook.may_fail})
            if hook.may_fail:
                return passed
            raise _internal(problem) from error

    def _meets_conditions(self, request: Tree) -> bool:
        if not self._conditions:
            return True
        seen = {"object": request.get("object"), "oldObject": request.get("oldObject"), "request": request}
        try:
            return self._conditions.hold({**seen, "namespaceObject": None, **self._values(request)})
        except ConditionsFailed as error:
            log.warning("conditions of a webhook failed", extra={"webhook": self.name, "cause": str(error)})
            if self._hook.may_fail:
                return False
            raise _forbidden(request, str(error)) from error


class RemoteHooks:
    """The webhooks of all configurations in a world, kept in its chain of admitters."""

    def __init__(self, world: World, targets: Targets) -> None:
        self.targets = targets
        self._world = world
        self._known: dict[tuple[str, str], tuple[RemoteHook, ...]] = {}
        self._active: tuple[RemoteHook, ...] = ()

    async def start(self) -> None:
        """Takes in the configurations that are stored, and follows those that come and go."""
        for plural in _PLURALS:
            served = self._world.catalog.find(_GROUP, "v1", plural)
            assert served is not None  # it is built in
            self._world.follow(served.prefix, self._changed)
            page = await self._world.storage.list(served.prefix)
            for item in page.items:
                tree = decode_tree(item.value)
                if is_map(tree):
                    self._take(plural, tree)
        self._put()

    def _changed(self, served: Served, before: Tree | None, after: Tree | None) -> None:
        gone = before if after is None else None
        if gone is not None:
            self._known.pop((gone["metadata"]["name"], served.plural), None)
        elif after is not None:
            self._take(served.plural, after)
        self._put()

    def _take(self, plural: str, configuration: Tree) -> None:
        hooks = read_webhooks(configuration, mutates=_PLURALS[plural])
        made = tuple(RemoteHook(one, self.targets, self._values) for one in hooks)
        self._known[configuration["metadata"]["name"], plural] = made

    def _values(self, request: Tree) -> Mapping[str, Any]:
        return authorizer_values(self._world, request)

    def _put(self) -> None:
        """Puts those that there are now into the chain, behind all others."""
        before, self._active = self._active, tuple(one for key in sorted(self._known) for one in self._known[key])
        world = self._world
        chain = Chain() if world.admission is None else world.admission.without(before)
        world.admission = chain.with_more(self._active).or_none()


def _internal(problem: str) -> ServerFailed:
    causes = {"causes": [{"message": problem}]}
    return ServerFailed(f"Internal error occurred: {problem}", code=500, reason="InternalError", details=causes)


def _forbidden(request: Tree, problem: str) -> Forbidden:
    resource, name = request["requestResource"], request.get("name", "")
    group = f".{resource['group']}" if resource["group"] else ""
    details = {"name": name, "group": resource["group"], "kind": resource["resource"]}
    told = {word: value for word, value in details.items() if value}
    return Forbidden(f'{resource["resource"]}{group} "{name}" is forbidden: {problem}', details=told)
