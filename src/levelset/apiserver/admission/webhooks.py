"""Admission webhooks: the webhooks of the stored configurations as plugins of the admission chain.

`WebhookIndex` follows the Mutating- and ValidatingWebhookConfigurations: a configuration is active from the write that
creates it to the write that deletes it. Mutating webhooks are called in the order of the names of their configurations,
then in the order within a configuration. The AdmissionReview that is sent and the validation of the response are here,
too; the call itself is in `wire/webhook_client.py`.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from levelset.apiserver.admission.chain import AdmissionChain
from levelset.apiserver.admission.match_rules import MatchResources, read_match_resources
from levelset.apiserver.admission.policies.authorizer_variable import authorizer_values
from levelset.apiserver.expressions.match_conditions import (
    MatchConditionError,
    MatchConditions,
    read_match_conditions,
)
from levelset.apiserver.resources.expensive_work import ExpensiveWork
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.apiserver.wire.step_limits import run_limited
from levelset.apiserver.wire.webhook_client import WebhookClient
from levelset.errors import BadRequest, Forbidden, Malformed, ServerFailed, Unreachable
from levelset.objects import decode_tree, encode_tree
from levelset.objects.json_tree import is_list, is_map

__all__ = [
    "AuthorizerVariables",
    "InvalidWebhookResponse",
    "Webhook",
    "WebhookIndex",
    "WebhookPlugin",
    "encode_review",
    "read_review_response",
    "read_webhook",
]

_GROUP: Final = "admissionregistration.k8s.io"
_VERSIONS: Final = ("v1", "v1beta1")


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """One webhook of a configuration, read from its JSON."""

    name: str
    mutates: bool
    match: MatchResources
    client_config: Mapping[str, Any]
    conditions: MatchConditions
    ignores_failures: bool
    """Whether the failure policy is `Ignore`."""
    reinvokes: bool
    timeout_seconds: float
    version: str
    """The version of AdmissionReview that is sent."""
    has_side_effects: bool
    """Whether it may have side effects in a dry run, in which case it must not be called then."""

    def matches(self, operation: str, resource: tuple[str, str, str], subresource: str) -> bool:
        """Whether a rule matches; admission configurations are exempt, so that a bad one can be fixed."""
        if resource[0] == _GROUP:
            return False
        return self.match.matches(operation, resource, subresource)

    def matches_request(self, request: Tree, namespace: Tree | None) -> bool:
        """Whether its rules, scopes and selectors match the object of this review request, in this Namespace."""
        return self.match.matches_request(request, namespace)


def read_webhook(tree: Tree, *, mutates: bool) -> Webhook:
    """Reads one of the `webhooks` of a configuration."""
    return Webhook(
        name=_name(tree),
        mutates=mutates,
        match=read_match_resources({**tree, "resourceRules": list_member(tree, "rules")}),
        client_config=map_member(tree, "clientConfig"),
        conditions=MatchConditions(read_match_conditions(list_member(tree, "matchConditions"))),
        ignores_failures=tree.get("failurePolicy") == "Ignore",
        reinvokes=tree.get("reinvocationPolicy") == "IfNeeded",
        timeout_seconds=float(tree.get("timeoutSeconds") or 10),
        version=next((one for one in tree.get("admissionReviewVersions") or () if one in _VERSIONS), "v1"),
        has_side_effects=tree.get("sideEffects") not in ("None", "NoneOnDryRun"),
    )


def _name(tree: Tree) -> str:
    return str(tree.get("name", ""))


GROUP = "admission.k8s.io"
KIND = "AdmissionReview"
_MAX_WARNINGS = 256


class InvalidWebhookResponse(Malformed):
    """The response of a webhook is not a valid AdmissionReview response to the request."""


def encode_review(hook: Webhook, request: Tree) -> bytes:
    """The AdmissionReview request in the version that the webhook supports."""
    return encode_tree({"kind": KIND, "apiVersion": f"{GROUP}/{hook.version}", "request": request})


def read_review_response(hook: Webhook, uid: str, body: bytes) -> Tree:
    """The `response` of a review; raises InvalidWebhookResponse, with kube-apiserver's message where it has one."""
    review = _decoded(body)
    found, expected = (review.get("apiVersion"), review.get("kind")), (f"{GROUP}/{hook.version}", KIND)
    # v1beta1 webhooks may leave out apiVersion and kind.
    if found != expected and not (hook.version == "v1beta1" and found == (None, None)):
        raise InvalidWebhookResponse(
            f"expected webhook response of {expected[0]}, Kind={KIND}, got {found[0]}, Kind={found[1]}"
        )
    response: Any = review.get("response")
    if not is_map(response):
        raise InvalidWebhookResponse("webhook response was absent")
    if hook.version == "v1":
        if response.get("uid") != uid:
            raise InvalidWebhookResponse(f'expected response.uid="{uid}", got "{response.get("uid") or ""}"')
        _check_patch(hook, response)
    elif response.get("patch"):
        response = {**response, "patchType": response.get("patchType") or "JSONPatch"}
    return _typed({**response, "uid": uid})


def _decoded(body: bytes) -> Tree:
    try:
        review = decode_tree(body)
    except (Malformed, msgspec.MsgspecError) as error:
        raise InvalidWebhookResponse(f"webhook response cannot be read: {error}") from error
    if not is_map(review):
        raise InvalidWebhookResponse("webhook response is not a JSON object")
    return review


def _check_patch(hook: Webhook, response: Tree) -> None:
    patch, kind = response.get("patch"), response.get("patchType")
    if not hook.mutates:
        if patch or kind:
            raise InvalidWebhookResponse("validating webhook may not return response.patch or response.patchType")
    elif patch and not kind:
        raise InvalidWebhookResponse("webhook returned response.patch but not response.patchType")
    elif kind and not patch:
        raise InvalidWebhookResponse("webhook returned response.patchType but not response.patch")
    elif kind and kind != "JSONPatch":
        raise InvalidWebhookResponse(f'webhook returned invalid response.patchType of "{kind}"')


def _typed(response: Tree) -> Tree:
    """The response with the types of its fields checked, so that later code can rely on them."""
    if not isinstance(response.get("allowed"), bool):
        response["allowed"] = False
    if not isinstance(response.get("patch") or "", str):
        raise InvalidWebhookResponse("response.patch must be a base64 string")
    warnings: Any = response.get("warnings")
    if warnings is not None:
        if not is_list(warnings):
            raise InvalidWebhookResponse("response.warnings must be a list of strings")
        response["warnings"] = [one for one in warnings if isinstance(one, str)][:_MAX_WARNINGS]
    annotations: Any = response.get("auditAnnotations")
    if annotations is not None and not is_map(annotations):
        raise InvalidWebhookResponse("response.auditAnnotations must be an object")
    return response


AuthorizerVariables = Callable[[Tree], Mapping[str, Any]]
"""The CEL variables of a review request besides the request itself: `authorizer` and its request resource."""

log = logging.getLogger(__name__)


_PLURALS: Final = {"mutatingwebhookconfigurations": True, "validatingwebhookconfigurations": False}


class WebhookPlugin:
    """One webhook of a configuration as an `AdmissionPlugin`.

    It is read when a write is first compared with its rules: a configuration may have thousands, and is in force before
    the write that stores it is answered.
    """

    __slots__ = ("_client", "_expensive", "_read", "_tree", "_variables", "mutates", "name")

    def __init__(
        self,
        tree: Tree,
        client: WebhookClient,
        variables: AuthorizerVariables,
        expensive: ExpensiveWork,
        *,
        mutates: bool,
    ) -> None:
        self.name = _name(tree)
        self.mutates = mutates
        self._tree = tree
        self._client = client
        self._variables = variables
        self._expensive = expensive
        self._read: Webhook | None = None

    @property
    def _hook(self) -> Webhook:
        if self._read is None:
            self._read = read_webhook(self._tree, mutates=self.mutates)
        return self._read

    @property
    def reinvokes(self) -> bool:
        """Whether it is called a second time if a later plugin changed the object."""
        return self._hook.reinvokes

    def matches(self, operation: str, resource: tuple[str, str, str], subresource: str, /) -> bool:
        """Whether one of its rules matches the operation on this resource."""
        return self._hook.matches(operation, resource, subresource)

    async def review(self, request: Tree, namespace: Tree | None, /) -> Tree:
        """Calls the webhook if its selectors and match conditions match, and applies its failure policy."""
        hook, allowed = self._hook, {"uid": request["uid"], "allowed": True}
        if not hook.matches_request(request, namespace) or not await self._meets_conditions(request):
            return allowed
        if request["dryRun"] and hook.has_side_effects:
            raise BadRequest(f'admission webhook "{hook.name}" does not support dry run')
        try:
            review = encode_review(hook, request)
            body = await self._client.call(hook.client_config, review, seconds=hook.timeout_seconds)
            return read_review_response(hook, request["uid"], body)
        except (Unreachable, InvalidWebhookResponse) as error:
            called = "" if isinstance(error, InvalidWebhookResponse) else "failed to call webhook: "
            problem = f'failed calling webhook "{hook.name}": {called}{error}'
            ignored = hook.ignores_failures
            log.warning(
                "admission webhook failed", extra={"webhook": hook.name, "cause": str(error), "ignored": ignored}
            )
            if ignored:
                return allowed
            raise _internal(problem) from error

    async def _meets_conditions(self, request: Tree) -> bool:
        conditions = self._hook.conditions
        if not conditions:
            return True
        objects = {"object": request.get("object"), "oldObject": request.get("oldObject"), "request": request}
        try:
            values = {**objects, "namespaceObject": None, **self._variables(request)}
            work = partial(conditions.match, values)
            return await run_limited(self._expensive, work)
        except MatchConditionError as error:
            log.warning("match conditions of a webhook failed", extra={"webhook": self.name, "cause": str(error)})
            if self._hook.ignores_failures:
                return False
            raise _forbidden(request, str(error)) from error


class WebhookIndex:
    """The webhooks of all stored configurations, kept in the admission chain of the server."""

    def __init__(self, state: ServerState, client: WebhookClient) -> None:
        self.client = client
        self._state = state
        self._plugins: dict[tuple[str, str], tuple[WebhookPlugin, ...]] = {}
        self._active: tuple[WebhookPlugin, ...] = ()

    async def start(self) -> None:
        """Loads the stored configurations, and follows their writes from then on."""
        for plural in _PLURALS:
            served = self._state.catalog.find(_GROUP, "v1", plural)
            assert served is not None  # built in
            self._state.add_resource_listener(served.prefix, self._changed)
            page = await self._state.storage.list(served.prefix)
            for item in page.items:
                tree = decode_tree(item.value)
                if is_map(tree):
                    self._add(plural, tree)
        self._update_chain()

    def _changed(self, served: ServedResource, before: Tree | None, after: Tree | None) -> None:
        if after is not None:
            self._add(served.plural, after)
        elif before is not None:
            self._plugins.pop((before["metadata"]["name"], served.plural), None)
        self._update_chain()

    def _add(self, plural: str, configuration: Tree) -> None:
        self._plugins[configuration["metadata"]["name"], plural] = tuple(
            WebhookPlugin(one, self.client, self._variables, self._state.expensive_work, mutates=_PLURALS[plural])
            for one in list_member(configuration, "webhooks")
        )

    def _variables(self, request: Tree) -> Mapping[str, Any]:
        return authorizer_values(self._state, request)

    def _update_chain(self) -> None:
        """Replaces the webhooks in the admission chain; they come after all other plugins."""
        before, self._active = self._active, tuple(one for key in sorted(self._plugins) for one in self._plugins[key])
        state = self._state
        chain = AdmissionChain() if state.admission is None else state.admission.without_plugins(before)
        state.admission = chain.with_plugins(self._active).or_none()


def _internal(problem: str) -> ServerFailed:
    causes = {"causes": [{"message": problem}]}
    return ServerFailed(f"Internal error occurred: {problem}", code=500, reason="InternalError", details=causes)


def _forbidden(request: Tree, problem: str) -> Forbidden:
    resource, name = request["requestResource"], request.get("name", "")
    group = f".{resource['group']}" if resource["group"] else ""
    details = {"name": name, "group": resource["group"], "kind": resource["resource"]}
    given = {word: value for word, value in details.items() if value}
    return Forbidden(f'{resource["resource"]}{group} "{name}" is forbidden: {problem}', details=given)
