"""From the `request` of an AdmissionReview to its `response`: who is asked, and what becomes of what they say.

The order of events: selectors, conditions, functions; then the patch that leads from what was sent to what came out.
"""

import base64
import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from levelset.aio import timing
from levelset.errors import ApiError, BadObject, BadRequest, Cause, Deadline, Denied, Invalid
from levelset.objects import codec
from levelset.objects.resource import Object
from levelset.objects.selectors import LabelSelector
from levelset.objects.trees import copy_tree, is_map
from levelset.objects.unstructured import Unstructured
from levelset.patch import diff_operations
from levelset.webhook.calling import call
from levelset.webhook.review import Notes, Review, fit_warnings

if TYPE_CHECKING:
    from levelset.webhook.hooks import Hook

__all__ = ["answer", "refusal"]

_log: Final = logging.getLogger("levelset.webhook")

_MARGIN: Final = 0.1
"""The part of its time by which a function is ended early: the answer must be back before the server gives up."""


class _Unusable(Exception):
    """A function returned what cannot be used; the text says what it should have returned."""


async def answer(
    hook: "Hook",
    request: Mapping[str, Any],
    space: Mapping[str, Any] | None = None,
    *,
    within: float | None = None,
) -> dict[str, Any]:
    """The response; it is a refusal for whatever a function raises, unless failures of the hook are to be ignored.

    `within` is when whoever asks gives up, if that is earlier than the hook's own timeout.
    """
    told: dict[str, Any] = {"uid": request["uid"]}
    if not _is_selected(hook, request, space):
        return {**told, "allowed": True}
    try:
        case = _Case(hook, request)
    except BadObject as error:
        return {**told, "allowed": False, "status": refusal(_unfit(hook, error))}
    seconds = hook.timeout if within is None else min(within, hook.timeout)
    limit = timing.within(seconds * (1 - _MARGIN))
    try:
        async with limit:
            await _ask(hook, case)
        outcome = {"allowed": True, **_patch(hook, request, case.object)}
    except Exception as error:  # noqa: BLE001 - whatever a user's function raises is an answer, never a crash
        is_late = isinstance(error, TimeoutError) and limit.expired()
        late = Deadline(f"it did not answer within {seconds:g} seconds")
        outcome = _outcome(hook, case, late if is_late else error)
    return {**told, **outcome, **_told(case.notes)}


class _Case:
    """One request while it is decided: the object as it is by now, and what was said about it."""

    def __init__(self, hook: "Hook", request: Mapping[str, Any]) -> None:
        sent, before = request.get("object"), request.get("oldObject")
        self.notes = Notes()
        self.object = _read(hook, before if sent is None else sent)
        known: list[Any] = []

        def old() -> Any:
            if not known:
                known.append(None if before is None else _read(hook, before))
            return known[0]

        self.review: Review[Any] = Review(request, lambda: self.object, old, notes=self.notes, client=hook.client)


async def _ask(hook: "Hook", case: _Case) -> None:
    """Asks all functions, unless the conditions leave the object out."""
    if not all(condition(case.review) for condition in hook.conditions):
        return
    for called in hook.functions:
        made = await call(called, case.object, case.review)
        if not hook.mutates:
            if made is not None:
                raise _Unusable(f"{called.name} returned {type(made).__name__}; to refuse is to raise Denied")
            continue
        if not isinstance(made, type(case.object)):
            said = "nothing" if made is None else f"a {type(made).__name__}"
            raise _Unusable(f"{called.name} returned {said}; it must return the {hook.gvk.kind}, changed or not")
        case.object = made


def _is_selected(hook: "Hook", request: Mapping[str, Any], space: Mapping[str, Any] | None) -> bool:
    wanted = hook.object_selector
    if wanted is not None:
        shown = [one for one in (request.get("object"), request.get("oldObject")) if is_map(one)]
        if not any(_fits(wanted, one) for one in shown):
            return False
    wanted = hook.namespace_selector
    # What has no namespace is always asked about; over the network the server has looked, and does not send it.
    return wanted is None or space is None or _fits(wanted, space)


def _fits(selector: LabelSelector, tree: Mapping[str, Any]) -> bool:
    metadata = tree.get("metadata")
    labels: Any = metadata.get("labels") if is_map(metadata) else None
    return selector.matches(labels if is_map(labels) else {})


def _read(hook: "Hook", tree: Any) -> Any:
    """The object as the hook wants it; a tree is a copy, which a function may change as it likes."""
    if tree is None:
        raise BadObject("the review shows no object", field="object")
    if isinstance(hook.kind, type):
        return codec.from_tree(hook.kind, tree)
    return Unstructured(cast("Any", copy_tree(tree)))


def _patch(hook: "Hook", request: Mapping[str, Any], made: Any) -> dict[str, Any]:
    """What has to be done to the object that was sent; nothing if it stays as it is."""
    sent = request.get("object")
    if not hook.mutates or sent is None:
        return {}
    tree = codec.to_tree(made) if isinstance(made, Object) else made.tree
    _check_same(sent, tree)
    operations = diff_operations(sent, tree)
    if not operations:
        return {}
    return {"patch": base64.b64encode(codec.encode_tree(operations)).decode(), "patchType": "JSONPatch"}


def _check_same(sent: Any, tree: Any) -> None:
    before, after = Unstructured(sent).metadata, Unstructured(tree).metadata
    for name in ("name", "namespace", "uid"):
        if (getattr(before, name) or None) != (getattr(after, name) or None):
            raise _Unusable(f"it changed metadata.{name}, which says what object this is")


def _outcome(hook: "Hook", case: _Case, error: Exception) -> dict[str, Any]:
    review = case.review
    refused = _refused(hook, error)
    if refused is not None:
        return {"allowed": False, "status": refusal(refused)}
    fields = {"webhook": hook.name, "uid": review.uid, "object": f"{review.namespace or ''}/{review.name}"}
    _log.error("an admission function failed", exc_info=error, extra=fields)
    if hook.failure_policy == "Ignore":
        case.notes.warnings.append(f"{hook.name} failed and was passed over: {_shown(error)}")
        return {"allowed": True}
    text = f"{_shown(error)}; the log of the webhook has more under uid {review.uid}"
    code, reason = (504, "Timeout") if isinstance(error, Deadline) else (500, "InternalError")
    failed = ApiError(text, code=code, reason=reason, details=_details(hook, review.name))
    return {"allowed": False, "status": refusal(failed)}


def _refused(hook: "Hook", error: Exception) -> ApiError | None:
    """The refusal that an exception is; None for one that nobody raised on purpose."""
    if isinstance(error, BadObject):
        return _unfit(hook, error)
    # One that a client has raised is no refusal: the function asked for something else, and that failed.
    if isinstance(error, ApiError) and error.request is None and error.code < 500:
        return error
    denials = list(_denials(error))
    if not denials:
        return None
    causes = [Cause(one.field, "FieldValueInvalid", str(one)) for one in denials if one.field]
    said = [f"{one.field}: {one}" if one.field else str(one) for one in denials]
    text = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
    return ApiError(text, code=403, reason="Forbidden", details=_details(hook, ""), causes=causes)


def _denials(error: BaseException) -> Iterator[Denied]:
    """The refusals in an exception; none if anything else is in it."""
    if isinstance(error, Denied):
        yield error
    elif isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error)
        found = [list(_denials(one)) for one in inner.exceptions]
        if all(found):
            yield from (one for several in found for one in several)


def refusal(error: ApiError) -> dict[str, Any]:
    """The `status` that tells of an error."""
    details: dict[str, Any] = dict(error.details)
    if error.causes:
        details["causes"] = [{"reason": one.reason, "message": one.message, "field": one.field} for one in error.causes]
    tree: dict[str, Any] = {"status": "Failure", "message": error.message, "reason": error.reason, "code": error.code}
    return {**tree, "details": details} if details else tree


def _unfit(hook: "Hook", error: BadObject) -> ApiError:
    if not error.field:
        return BadRequest(str(error))
    return Invalid(str(error), details=_details(hook, ""), causes=[Cause(error.field, "FieldValueInvalid", str(error))])


def _shown(error: Exception) -> str:
    """What may be told to anybody: our own words, but of an error that nobody foresaw only its name."""
    if isinstance(error, _Unusable | Deadline):
        return str(error)
    return f"it failed with {type(error).__name__}"


def _details(hook: "Hook", name: str) -> dict[str, Any]:
    found = {"name": name, "group": hook.gvk.group, "kind": hook.plural}
    return {word: value for word, value in found.items() if value}


def _told(notes: Notes) -> dict[str, Any]:
    found = {"warnings": fit_warnings(notes.warnings), "auditAnnotations": notes.audit}
    return {name: value for name, value in found.items() if value}
