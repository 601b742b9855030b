"""Admission webhooks as values: `defaults(Website, latest_image)` and `validates(Website, sensible)`.

An `AdmissionHook` says which writes it is for and which functions are called. It does nothing by itself: an
`ApiServer`, a manager or an `Endpoint` calls it before every matching write. A function rejects a write by raising, and
changes an object by returning the changed one.

`respond` turns the `request` of an AdmissionReview into its `response`: selectors and conditions first, then the
functions, then the JSON patch from what was sent to what the functions returned.
"""

import base64
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, Literal, TypedDict, TypeGuard, TypeVar, Unpack, cast, get_args, overload

import msgspec

from levelset.aio import timing
from levelset.client.client import Client
from levelset.client.object_types import view_of
from levelset.errors import (
    ApiError,
    BadObject,
    BadRequest,
    BadSelector,
    Cause,
    ConfigError,
    Deadline,
    Denied,
    Invalid,
    NotReady,
)
from levelset.objects import codec
from levelset.objects.json_tree import copy_tree, is_list, is_map
from levelset.objects.kind_definition import plural_of
from levelset.objects.label_selectors import LabelSelector
from levelset.objects.lazy_pattern import Pattern
from levelset.objects.names import check_dns1123_subdomain, is_qualified_name
from levelset.objects.ref import GroupVersionKind
from levelset.objects.resource import Object
from levelset.objects.unstructured import Unstructured
from levelset.patch import diff_operations

__all__ = [
    "MAX_WARNING",
    "AdmissionFunction",
    "AdmissionHook",
    "FailurePolicy",
    "HookOptions",
    "MatchCondition",
    "MutatingFunction",
    "Notes",
    "Operation",
    "Review",
    "SideEffects",
    "User",
    "ValidatingFunction",
    "Webhook",
    "call_function",
    "defaults",
    "failure_status",
    "inspect_function",
    "respond",
    "truncate_warnings",
    "validates",
]

K = TypeVar("K")

Operation = Literal["connect", "create", "delete", "update"]

MAX_WARNING: Final = 256
"""API servers truncate longer warnings."""
_MAX_ALL_WARNINGS: Final = 4096


class User(msgspec.Struct, frozen=True):
    """The user who sent the request, as the API server authenticated it."""

    name: str
    groups: Sequence[str] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict[str, Sequence[str]])


class Notes(msgspec.Struct):
    """Warnings and audit annotations that functions have added to a request."""

    warnings: list[str] = msgspec.field(default_factory=list[str])
    audit: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class Review(Generic[K]):
    """One admission request: a write that a function may reject or change.

    `new` is the object as it would be stored, with the changes of earlier functions; for a delete it is the object that
    is deleted. `old` is the object before the write, None for a create; it is decoded when it is first read, so that an
    object that no longer fits its class can still be corrected. With `dry_run` nothing will be stored: a function must
    not have side effects then.
    """

    __slots__ = (
        "_client",
        "_new",
        "_notes",
        "_old",
        "dry_run",
        "name",
        "namespace",
        "operation",
        "options",
        "subresource",
        "uid",
        "user",
    )

    def __init__(
        self,
        request: Mapping[str, Any],
        new: Callable[[], K],
        old: Callable[[], K | None],
        *,
        notes: Notes,
        client: Client | None = None,
    ) -> None:
        self.uid: str = request["uid"]
        self.operation: Operation = request["operation"].lower()
        self.name: str = request.get("name") or ""
        self.namespace: str | None = request.get("namespace") or None
        self.subresource: str = request.get("subResource") or ""
        self.user = _user(request.get("userInfo") or {})
        self.dry_run: bool = request.get("dryRun") is True
        self.options: Mapping[str, Any] = request.get("options") or {}
        self._new, self._old = new, old
        self._client = client
        self._notes = notes

    @property
    def new(self) -> K:
        """The object to admit."""
        return self._new()

    @property
    def old(self) -> K | None:
        """The object before the write; None for a create. BadObject if it does not fit its class."""
        return self._old()

    @property
    def client(self) -> Client:
        """A client of the API server that sent the review; NotReady if the function is called without one."""
        if self._client is None:
            raise NotReady("there is no client: run the webhooks in a manager, or pass Endpoint(client=...)")
        return self._client

    def warn(self, text: str) -> None:
        """Adds a warning for the client, whether the request is allowed or not; kubectl prints it."""
        self._notes.warnings.append(text)

    def annotate(self, key: str, value: str) -> None:
        """Adds an annotation to the audit event of the request."""
        self._notes.audit[key] = value

    def __repr__(self) -> str:
        where = "/".join(one for one in (self.namespace, self.name, self.subresource) if one)
        return f"Review({self.operation} {where} for {self.user.name})"


def truncate_warnings(warnings: Sequence[str]) -> list[str]:
    """The warnings as an API server accepts them: one line each, limited in length and in total."""
    fitted: list[str] = []
    left = _MAX_ALL_WARNINGS
    for text in warnings:
        line = " ".join("".join(one if one.isprintable() else " " for one in str(text)).split())
        line = line if len(line) <= MAX_WARNING else f"{line[: MAX_WARNING - 3]}..."
        if not line or len(line) > left or line in fitted:
            continue
        fitted.append(line)
        left -= len(line)
    return fitted


def _user(tree: Mapping[str, Any]) -> User:
    extra: Any = tree.get("extra")
    more = {name: _texts(values) for name, values in extra.items()} if is_map(extra) else {}
    return User(str(tree.get("username") or ""), _texts(tree.get("groups")), str(tree.get("uid") or ""), more)


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(str(one) for one in values) if is_list(values) else ()


MutatingFunction = (
    Callable[[K], K | Awaitable[K]]
    | Callable[[K, Review[K]], K | Awaitable[K]]
    | Callable[[Review[K]], K | Awaitable[K]]
)
"""Returns the object to store: the given one, or a changed one."""
ValidatingFunction = (
    Callable[[K], Awaitable[None] | None]
    | Callable[[K, Review[K]], Awaitable[None] | None]
    | Callable[[Review[K]], Awaitable[None] | None]
)
"""Raises if the object must not be stored."""

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class AdmissionFunction(msgspec.Struct, Generic[K], frozen=True):
    """A user's function, its name for messages, and which arguments it takes."""

    function: Callable[..., Any]
    name: str
    takes: Literal["both", "object", "review"]


def inspect_function(function: Any) -> AdmissionFunction[Any]:
    """Inspects the signature of a function; ConfigError if it takes neither an object nor a review."""
    name = getattr(function, "__name__", type(function).__name__)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise ConfigError(f"{function!r} cannot be an admission function: pass a function of the object") from None
    if any(one.kind is inspect.Parameter.KEYWORD_ONLY and one.default is one.empty for one in parameters):
        raise ConfigError(f"{name} has required keyword arguments: an admission function takes (object, review)")
    taken = [one for one in parameters if one.kind in _POSITIONAL and one.default is one.empty]
    match taken:
        case [only]:
            return AdmissionFunction(function, name, "review" if _is_review(only) else "object")
        case [_, _]:
            return AdmissionFunction(function, name, "both")
        case _:
            raise ConfigError(f"{name} takes {len(taken)} arguments: an admission function takes (object, review)")


async def call_function(called: AdmissionFunction[K], obj: K, review: Review[K]) -> Any:
    """Calls the function, and awaits its result if need be."""
    match called.takes:
        case "both":
            result = called.function(obj, review)
        case "review":
            result = called.function(review)
        case "object":
            result = called.function(obj)
    return await result if inspect.isawaitable(result) else result


def _is_review(parameter: inspect.Parameter) -> bool:
    annotation = parameter.annotation
    if annotation is parameter.empty:
        return parameter.name == "review"
    if isinstance(annotation, str):  # postponed annotations (`from __future__ import annotations`)
        return annotation.partition("[")[0].rpartition(".")[2] == "Review"
    return annotation is Review or getattr(annotation, "__origin__", None) is Review


class Webhook(msgspec.Struct, frozen=True, eq=False):
    """An admission hook or a conversion; made by `defaults`, `validates` and `converts`."""


O = TypeVar("O", bound=Object)  # noqa: E741  # the letter the type checker shows

FailurePolicy = Literal["Fail", "Ignore"]
SideEffects = Literal["None", "NoneOnDryRun"]

_OPERATIONS: Final = get_args(Operation)
_NOT_NAME: Final = Pattern(r"[^a-z0-9]+")
_WRITES: Final = ("create", "update")
_MAX_CONDITIONS: Final = 64
_MAX_TIMEOUT: Final = 30


class MatchCondition(msgspec.Struct, Generic[K], frozen=True):
    """A match condition, given twice: as CEL for the API server, and as a function for in-process servers.

    The API server then does not even send requests that do not match. `name` identifies it in messages.
    """

    name: str
    cel: str
    check: Callable[[Review[K]], bool]


When = Callable[[Review[K]], bool] | MatchCondition[K]
"""Whether the functions are called for a review."""


class AdmissionHook(Webhook, frozen=True, kw_only=True, eq=False):
    """Functions that are called before writes of one kind; made by `defaults` and `validates`."""

    kind: type[Any] | GroupVersionKind
    gvk: GroupVersionKind
    plural: str
    namespaced: bool | None
    functions: Sequence[AdmissionFunction[Any]]
    mutates: bool
    name: str
    operations: Sequence[Operation]
    subresources: Sequence[str] = ()
    conditions: Sequence[Callable[[Review[Any]], bool]] = ()
    """All must be true for the functions to be called."""
    expressions: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """The match conditions that the API server evaluates: CEL by name."""
    failure_policy: FailurePolicy = "Fail"
    timeout: float = 10.0
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    side_effects: SideEffects = "None"
    reinvokes: bool = False
    client: Client | None = None

    @property
    def path(self) -> str:
        """The path at which it is served; derived from the name."""
        return f"/{'default' if self.mutates else 'validate'}/{self.name}"

    def matches(self, operation: str, place: tuple[str, str, str], subresource: str, /) -> bool:
        """Whether it is for this operation on this (group, version, resource) and subresource."""
        if place != (self.gvk.group, self.gvk.version, self.plural) or operation.lower() not in self.operations:
            return False
        parts = self.subresources or ("",)
        return subresource in parts or ("*" in parts and subresource != "")

    async def review(self, request: Mapping[str, Any], space: Mapping[str, Any] | None = None, /) -> dict[str, Any]:
        """The `response` to the `request` of an AdmissionReview; raises nothing but cancellation."""
        return await respond(self, request, space)

    def with_client(self, client: Client | None) -> "AdmissionHook":
        """A copy of the hook, with this client as `review.client`."""
        return msgspec.structs.replace(self, client=client)

    def __repr__(self) -> str:
        return f"{'defaults' if self.mutates else 'validates'}({self.gvk}, {self.name})"


class HookOptions(TypedDict, total=False):
    """The options of `defaults` and `validates`; see `validates`."""

    on: Operation | Sequence[Operation]
    name: str | None
    plural: str | None
    subresources: str | Sequence[str]
    when: When[Any] | Sequence[When[Any]]
    failure_policy: FailurePolicy
    timeout: float
    namespace_selector: LabelSelector | str | None
    object_selector: LabelSelector | str | None
    side_effects: SideEffects
    reinvoke: bool
    """Of `defaults` only: whether the functions are called again if a later mutating webhook changed the object."""


@overload
def defaults(kind: type[O], /, *functions: MutatingFunction[O], **options: Unpack[HookOptions]) -> AdmissionHook: ...
@overload
def defaults(
    kind: GroupVersionKind, /, *functions: MutatingFunction[Unstructured], **options: Unpack[HookOptions]
) -> AdmissionHook: ...
def defaults(kind: Any, /, *functions: Any, **options: Unpack[HookOptions]) -> AdmissionHook:
    """A mutating webhook: each function returns the object to store.

    The functions are called in order, each with the result of the one before. The options are those of `validates`;
    with `reinvoke` the functions are called again if a later mutating webhook changed the object. An object that does
    not fit the class is rejected before any function sees it: to fill in fields that the class requires, pass the kind
    as a GroupVersionKind and change trees.
    """
    hook = _hook(kind, functions, options, mutates=True)
    if "delete" in hook.operations:
        raise ConfigError(f"{hook.name}: a delete cannot change the object; use validates")
    return hook


@overload
def validates(kind: type[O], /, *functions: ValidatingFunction[O], **options: Unpack[HookOptions]) -> AdmissionHook: ...
@overload
def validates(
    kind: GroupVersionKind, /, *functions: ValidatingFunction[Unstructured], **options: Unpack[HookOptions]
) -> AdmissionHook: ...
def validates(kind: Any, /, *functions: Any, **options: Unpack[HookOptions]) -> AdmissionHook:
    """A validating webhook: each function raises `Denied`, or `Invalid` with causes, to reject a write.

    A function takes the object, the object and a `Review`, or only the review; it may be a coroutine function. Options:

    - `on`: the operations, "create" and "update" by default; also "delete" and "connect".
    - `subresources`: called for these instead of the object itself, which is the empty string, as in `("", "status")`.
    - `when`: a function of the review, a `MatchCondition`, or several: all must be true.
    - `namespace_selector`, `object_selector`: label selectors, as text or LabelSelector.
    - `timeout`: seconds, 1 to 30 (default 10), for all functions; only one that awaits can be cancelled.
    - `failure_policy`: "Fail" (default) rejects the write after an unexpected error, "Ignore" admits it with a warning.
    - `side_effects`: "NoneOnDryRun" if a function has side effects except when `review.dry_run`.
    - `name`: a domain name of at least three parts; made of the function and the kind unless given.
    - `plural`: the resource name, for a kind without a class.
    """
    hook = _hook(kind, functions, options, mutates=False)
    if hook.reinvokes:
        raise ConfigError(f"{hook.name}: validating webhooks are never reinvoked; reinvoke is for defaults")
    return hook


def _hook(kind: Any, functions: Sequence[Any], options: HookOptions, *, mutates: bool) -> AdmissionHook:
    view = view_of(kind)
    if view.is_metadata:
        raise ConfigError(f"admission of {view.gvk.kind} needs whole objects; pass the class or a GroupVersionKind")
    if not functions:
        raise ConfigError(f"admission of {view.gvk.kind} needs at least one function")
    called = [inspect_function(one) for one in functions]
    definition = view.definition
    known = plural_of(view.gvk.kind) if definition is None else definition.plural
    plural = options.get("plural") or known
    named = options.get("name") or f"{_word(called[0].name)}.{plural}.{view.gvk.group or 'core'}"
    made: AdmissionHook = AdmissionHook(
        kind=kind,
        gvk=view.gvk,
        plural=plural,
        namespaced=None if definition is None else definition.namespaced,
        functions=tuple(called),
        mutates=mutates,
        name=named,
        operations=_operations(named, options.get("on", _WRITES)),
        **_read_options(named, options),
    )
    _check(made, is_typed=view.class_ is not Unstructured)
    return made


def _read_options(name: str, options: HookOptions) -> dict[str, Any]:
    """The options as attributes of a hook, except those for its name and rules."""
    unknown = sorted(options.keys() - HookOptions.__annotations__.keys())
    if unknown:
        known = ", ".join(sorted(HookOptions.__annotations__))
        raise ConfigError(f"{name}: unknown option {unknown[0]}; there are {known}")
    read: dict[str, Any] = {word: value for word, value in options.items() if word not in ("name", "on", "plural")}
    for word in ("namespace_selector", "object_selector"):
        read[word] = _selector(name, word, options.get(word))
    read["reinvokes"] = bool(read.pop("reinvoke", False))
    read["subresources"] = _several(options.get("subresources", ()))
    when: Any = read.pop("when", ())
    several: list[Any] = [when] if callable(when) or _is_match(when) else list(when)
    matches = [one for one in several if _is_match(one)]
    read["expressions"] = {one.name: one.cel for one in matches}
    if len(matches) > _MAX_CONDITIONS or len(read["expressions"]) < len(matches):
        raise ConfigError(f"{name}: at most {_MAX_CONDITIONS} match conditions, each with a unique name")
    read["conditions"] = tuple(one.check if _is_match(one) else one for one in several)
    return read


def _is_match(one: Any) -> TypeGuard[MatchCondition[Any]]:
    return isinstance(one, MatchCondition)


def _check(hook: AdmissionHook, *, is_typed: bool) -> None:
    if check_dns1123_subdomain(hook.name) or hook.name.count(".") < 2:
        raise ConfigError(f"name {hook.name!r}: must be a domain name such as check.websites.shop.dev")
    if not 1 <= hook.timeout <= _MAX_TIMEOUT:
        raise ConfigError(f"{hook.name}: timeout={hook.timeout} must be between 1 and {_MAX_TIMEOUT} seconds")
    for word, value, known in (
        ("failure_policy", hook.failure_policy, get_args(FailurePolicy)),
        ("side_effects", hook.side_effects, get_args(SideEffects)),
    ):
        if value not in known:
            raise ConfigError(f"{hook.name}: {word}={value!r} must be one of {', '.join(known)}")
    foreign = [one for one in hook.subresources if one not in ("", "status")]
    if is_typed and (foreign or "connect" in hook.operations):
        what = f"{hook.plural}/{foreign[0]}" if foreign else f"a connection to {hook.plural}"
        raise ConfigError(
            f"{hook.name}: the object of {what} is not a {hook.gvk.kind}; pass {hook.gvk!r} instead of the class"
        )
    for condition, cel in hook.expressions.items():
        if not is_qualified_name(condition) or not cel.strip():
            raise ConfigError(f"{hook.name}: MatchCondition {condition!r} needs a name such as not-paused and CEL")


def _operations(name: str, on: Operation | Sequence[Operation]) -> Sequence[Operation]:
    operations: Any = _several(on)
    wrong = [one for one in operations if one not in _OPERATIONS]
    if wrong or not operations:
        raise ConfigError(f"{name}: on={on!r} must be one or several of {', '.join(_OPERATIONS)}")
    found: Sequence[Operation] = tuple(dict.fromkeys(operations))
    return found


def _selector(name: str, word: str, given: Any) -> LabelSelector | None:
    if given is None or isinstance(given, LabelSelector):
        return given
    try:
        return LabelSelector.parse(given)
    except BadSelector as error:
        raise ConfigError(f"{name}: {word}={given!r} is not a selector: {error}") from error


def _several(given: Any) -> tuple[Any, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _word(name: str) -> str:
    return _NOT_NAME.sub("-", name.lower()).strip("-") or "check"


_log: Final = logging.getLogger("levelset.runtime.webhook")

_MARGIN: Final = 0.1
"""The fraction of the timeout that is reserved for the response to arrive before the API server gives up."""


class _Unusable(Exception):
    """A function returned an unusable value; the message says what it should return."""


async def respond(
    hook: "AdmissionHook",
    request: Mapping[str, Any],
    space: Mapping[str, Any] | None = None,
    *,
    within: float | None = None,
) -> dict[str, Any]:
    """The `response` to the `request` of an AdmissionReview; raises nothing but cancellation.

    Whatever a function raises rejects the request, unless it is an unexpected error and the failure policy is Ignore.
    `space` is the namespace object, if the caller has it. `within` is the timeout of the API server, if that is shorter
    than the hook's own.
    """
    base: dict[str, Any] = {"uid": request["uid"]}
    if not _is_selected(hook, request, space):
        return {**base, "allowed": True}
    try:
        case = _Case(hook, request)
    except BadObject as error:
        return {**base, "allowed": False, "status": failure_status(_unfit(hook, error))}
    seconds = hook.timeout if within is None else min(within, hook.timeout)
    limit = timing.within(seconds * (1 - _MARGIN))
    try:
        async with limit:
            await _call_functions(hook, case)
        outcome = {"allowed": True, **_patch(hook, request, case.object)}
    except Exception as error:  # noqa: BLE001 - whatever a user's function raises becomes a response
        is_late = isinstance(error, TimeoutError) and limit.expired()
        late = Deadline(f"no response within {seconds:g} seconds")
        outcome = _outcome(hook, case, late if is_late else error)
    return {**base, **outcome, **_notes_tree(case.notes)}


class _Case:
    """One request while it is processed: the current object, and warnings and audit annotations so far."""

    def __init__(self, hook: "AdmissionHook", request: Mapping[str, Any]) -> None:
        sent, before = request.get("object"), request.get("oldObject")
        self.notes = Notes()
        self.object = _read(hook, before if sent is None else sent)
        known: list[Any] = []

        def old() -> Any:
            if not known:
                known.append(None if before is None else _read(hook, before))
            return known[0]

        self.review: Review[Any] = Review(request, lambda: self.object, old, notes=self.notes, client=hook.client)


async def _call_functions(hook: "AdmissionHook", case: _Case) -> None:
    """Calls all functions, unless a condition excludes the object."""
    if not all(condition(case.review) for condition in hook.conditions):
        return
    for called in hook.functions:
        made = await call_function(called, case.object, case.review)
        if not hook.mutates:
            if made is not None:
                raise _Unusable(f"{called.name} returned {type(made).__name__}; raise Denied to reject the write")
            continue
        if not isinstance(made, type(case.object)):
            returned = "nothing" if made is None else f"a {type(made).__name__}"
            raise _Unusable(f"{called.name} returned {returned}; it must return the {hook.gvk.kind}, changed or not")
        case.object = made


def _is_selected(hook: "AdmissionHook", request: Mapping[str, Any], space: Mapping[str, Any] | None) -> bool:
    wanted = hook.object_selector
    if wanted is not None:
        shown = [one for one in (request.get("object"), request.get("oldObject")) if is_map(one)]
        if not any(_matches_labels(wanted, one) for one in shown):
            return False
    wanted = hook.namespace_selector
    # Objects without a namespace always match. Over HTTPS the API server has evaluated the selector already.
    return wanted is None or space is None or _matches_labels(wanted, space)


def _matches_labels(selector: LabelSelector, tree: Mapping[str, Any]) -> bool:
    metadata = tree.get("metadata")
    labels: Any = metadata.get("labels") if is_map(metadata) else None
    return selector.matches(labels if is_map(labels) else {})


def _read(hook: "AdmissionHook", tree: Any) -> Any:
    """The object as the hook wants it; a tree is a copy, which a function may change as it likes."""
    if tree is None:
        raise BadObject("the review shows no object", field="object")
    if isinstance(hook.kind, type):
        return codec.from_tree(hook.kind, tree)
    return Unstructured(cast("Any", copy_tree(tree)))


def _patch(hook: "AdmissionHook", request: Mapping[str, Any], made: Any) -> dict[str, Any]:
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


def _outcome(hook: "AdmissionHook", case: _Case, error: Exception) -> dict[str, Any]:
    review = case.review
    rejected = _rejection(hook, error)
    if rejected is not None:
        return {"allowed": False, "status": failure_status(rejected)}
    fields = {"webhook": hook.name, "uid": review.uid, "object": f"{review.namespace or ''}/{review.name}"}
    _log.error("admission function failed", exc_info=error, extra=fields)
    if hook.failure_policy == "Ignore":
        case.notes.warnings.append(f"{hook.name} failed and was ignored: {_shown(error)}")
        return {"allowed": True}
    text = f"{_shown(error)}; see the log of the webhook for uid {review.uid}"
    code, reason = (504, "Timeout") if isinstance(error, Deadline) else (500, "InternalError")
    failed = ApiError(text, code=code, reason=reason, details=_details(hook, review.name))
    return {"allowed": False, "status": failure_status(failed)}


def _rejection(hook: "AdmissionHook", error: Exception) -> ApiError | None:
    """The rejection that an exception stands for; None for an unexpected error."""
    if isinstance(error, BadObject):
        return _unfit(hook, error)
    # An ApiError with a request comes from a client call of the function: that is a failure, not a rejection.
    if isinstance(error, ApiError) and error.request is None and error.code < 500:
        return error
    denials = list(_denials(error))
    if not denials:
        return None
    causes = [Cause(one.field, "FieldValueInvalid", str(one)) for one in denials if one.field]
    messages = [f"{one.field}: {one}" if one.field else str(one) for one in denials]
    text = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    return ApiError(text, code=403, reason="Forbidden", details=_details(hook, ""), causes=causes)


def _denials(error: BaseException) -> Iterator[Denied]:
    """The Denied errors in an exception or group; none if it contains anything else."""
    if isinstance(error, Denied):
        yield error
    elif isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error)
        found = [list(_denials(one)) for one in inner.exceptions]
        if all(found):
            yield from (one for several in found for one in several)


def failure_status(error: ApiError) -> dict[str, Any]:
    """The `status` of a response for an error."""
    details: dict[str, Any] = dict(error.details)
    if error.causes:
        details["causes"] = [{"reason": one.reason, "message": one.message, "field": one.field} for one in error.causes]
    tree: dict[str, Any] = {"status": "Failure", "message": error.message, "reason": error.reason, "code": error.code}
    return {**tree, "details": details} if details else tree


def _unfit(hook: "AdmissionHook", error: BadObject) -> ApiError:
    if not error.field:
        return BadRequest(str(error))
    return Invalid(str(error), details=_details(hook, ""), causes=[Cause(error.field, "FieldValueInvalid", str(error))])


def _shown(error: Exception) -> str:
    """The message for clients: our own errors as they are, but of unexpected errors only the class name."""
    if isinstance(error, _Unusable | Deadline):
        return str(error)
    return f"it failed with {type(error).__name__}"


def _details(hook: "AdmissionHook", name: str) -> dict[str, Any]:
    found = {"name": name, "group": hook.gvk.group, "kind": hook.plural}
    return {word: value for word, value in found.items() if value}


def _notes_tree(notes: Notes) -> dict[str, Any]:
    found = {"warnings": truncate_warnings(notes.warnings), "auditAnnotations": notes.audit}
    return {name: value for name, value in found.items() if value}
