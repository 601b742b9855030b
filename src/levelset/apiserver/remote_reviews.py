"""An AdmissionReview as it goes over the wire, and what of an answer can be believed; pure."""

from typing import Any

import msgspec

from levelset.apiserver.remote_rules import RemoteWebhook
from levelset.apiserver.world import Tree
from levelset.errors import Malformed
from levelset.objects import decode_tree, encode_tree
from levelset.objects.trees import is_list, is_map

__all__ = ["BadAnswer", "read_answer", "write_review"]

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
