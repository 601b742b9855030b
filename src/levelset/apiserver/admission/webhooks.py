"""Webhooks at the other end of a connection, as configurations name them: asked before a write like any `Admitter`.

A configuration counts from the write that makes it until the one that removes it. The webhooks that may change objects
are asked in the order of the names of their configurations, and then in the order in which they stand there.

What a webhook in a configuration is for: its rules, its selectors, and how it wants to be asked; pure.

A configuration is data of whoever wrote it; what is asked of it here never fails on a configuration that the server
has accepted.

An AdmissionReview as it goes over the wire, and what of an answer can be believed; pure.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from levelset.apiserver.admission.chain import Chain
from levelset.apiserver.admission.match_rules import MatchResources, read_match
from levelset.apiserver.admission.policies.authorizer import authorizer_values
from levelset.apiserver.expressions.match_conditions import Condition, Conditions, ConditionsFailed, read_conditions
from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree, World
from levelset.apiserver.wire.webhook_targets import Targets
from levelset.errors import BadRequest, Forbidden, Malformed, ServerFailed, Unreachable
from levelset.objects import decode_tree, encode_tree
from levelset.objects.json_tree import is_list, is_map

__all__ = [
    "BadAnswer",
    "RemoteHook",
    "RemoteHooks",
    "RemoteWebhook",
    "Values",
    "read_answer",
    "read_webhooks",
    "write_review",
]

_GROUP: Final = "admissionregistration.k8s.io"
_VERSIONS: Final = ("v1", "v1beta1")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteWebhook:
    """One webhook of a configuration."""

    name: str
    configuration: str
    mutates: bool
    match: MatchResources
    client: Mapping[str, Any]
    conditions: tuple[Condition, ...]
    may_fail: bool
    reinvokes: bool
    seconds: float
    version: str
    """The version of AdmissionReview that is sent."""
    has_effects: bool
    """Whether it may do something besides answering even in a dry run, so that it must not be asked then."""

    def matches(self, operation: str, place: tuple[str, str, str], subresource: str) -> bool:
        """Whether some rule is for this; configurations of admission are nobody's business but their own."""
        if place[0] == _GROUP:
            return False
        return self.match.matches(operation, place, subresource)

    def wants(self, request: Tree, space: Tree | None) -> bool:
        """Whether its scopes and selectors pick the object of this request, in this namespace."""
        return self.match.wants(request, space)


def read_webhooks(configuration: Tree, *, mutates: bool) -> tuple[RemoteWebhook, ...]:
    """The webhooks of a configuration, in its order."""
    name = configuration["metadata"]["name"]
    return tuple(_read(one, name, mutates=mutates) for one in items(configuration, "webhooks"))


def _read(hook: Tree, configuration: str, *, mutates: bool) -> RemoteWebhook:
    return RemoteWebhook(
        name=str(hook.get("name", "")),
        configuration=configuration,
        mutates=mutates,
        match=read_match({**hook, "resourceRules": items(hook, "rules")}),
        client=part(hook, "clientConfig"),
        conditions=read_conditions(items(hook, "matchConditions")),
        may_fail=hook.get("failurePolicy") == "Ignore",
        reinvokes=hook.get("reinvocationPolicy") == "IfNeeded",
        seconds=float(hook.get("timeoutSeconds") or 10),
        version=next((one for one in hook.get("admissionReviewVersions") or () if one in _VERSIONS), "v1"),
        has_effects=hook.get("sideEffects") not in ("None", "NoneOnDryRun"),
    )


GROUP = "admission.k8s.io"
KIND = "AdmissionReview"
_MOST_WARNINGS = 256


class BadAnswer(Malformed):
    """What a webhook answered is no answer to what it was asked."""


def write_review(hook: RemoteWebhook, request: Tree) -> bytes:
    """The body of the question, in the version that the webhook wants."""
    return encode_tree({"kind": KIND, "apiVersion": f"{GROUP}/{hook.version}", "request": request})


def read_answer(hook: RemoteWebhook, uid: str, body: bytes) -> Tree:
    """The `response` in a body; raises BadAnswer, in the words of Kubernetes where it has some."""
    review = _decoded(body)
    found, wanted = (review.get("apiVersion"), review.get("kind")), (f"{GROUP}/{hook.version}", KIND)
    # An old review may come without its type.
    if found != wanted and not (hook.version == "v1beta1" and found == (None, None)):
        raise BadAnswer(f"expected webhook response of {wanted[0]}, Kind={KIND}, got {found[0]}, Kind={found[1]}")
    response: Any = review.get("response")
    if not is_map(response):
        raise BadAnswer("webhook response was absent")
    if hook.version == "v1":
        if response.get("uid") != uid:
            raise BadAnswer(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
        _check_patch(hook, response)
    elif response.get("patch"):
        response = {**response, "patchType": response.get("patchType") or "JSONPatch"}
    return _typed({**response, "uid": uid})


def _decoded(body: bytes) -> Tree:
    try:
        review = decode_tree(body)
    except (Malformed, msgspec.MsgspecError) as error:
        raise BadAnswer(f"webhook response cannot be read: {error}") from error
    if not is_map(review):
        raise BadAnswer("webhook response is no object")
    return review


def _check_patch(hook: RemoteWebhook, response: Tree) -> None:
    patch, kind = response.get("patch"), response.get("patchType")
    if not hook.mutates:
        if patch or kind:
            raise BadAnswer("validating webhook may not return response.patch or response.patchType")
    elif patch and not kind:
        raise BadAnswer("webhook returned response.patch but not response.patchType")
    elif kind and not patch:
        raise BadAnswer("webhook returned response.patchType but not response.patch")
    elif kind and kind != "JSONPatch":
        raise BadAnswer(f'webhook returned invalid response.patchType of "{kind}"')


def _typed(response: Tree) -> Tree:
    """The response with what has the wrong type refused, so that nobody after has to look."""
    if not isinstance(response.get("allowed"), bool):
        response["allowed"] = False
    if not isinstance(response.get("patch") or "", str):
        raise BadAnswer("response.patch must be a text in base64")
    warnings: Any = response.get("warnings")
    if warnings is not None:
        if not is_list(warnings):
            raise BadAnswer("response.warnings must be a list of texts")
        response["warnings"] = [one for one in warnings if isinstance(one, str)][:_MOST_WARNINGS]
    notes: Any = response.get("auditAnnotations")
    if notes is not None and not is_map(notes):
        raise BadAnswer("response.auditAnnotations must be an object")
    return response


Values = Callable[[Tree], Mapping[str, Any]]
"""What the conditions of webhooks may use besides the request they are given: whom they may ask."""

log = logging.getLogger(__name__)


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

    def _changed(self, served: ServedResource, before: Tree | None, after: Tree | None) -> None:
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
