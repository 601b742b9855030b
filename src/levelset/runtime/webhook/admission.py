"""Admission as values: `defaults(Website, latest_image)` and `validates(Website, sensible)`.

A hook says what it is for and which functions are asked. It does nothing by itself: given to an `ApiServer`, a manager
or an `Endpoint`, it is asked before every write that it is for. To refuse is to raise, to change is to return the
changed object.

What an admission function is told beside the object: who wants what, what was there before, and how to warn.

The user's functions: found out once how each wants to be called, and then called so, awaited if need be.

From the `request` of an AdmissionReview to its `response`: who is asked, and what becomes of what they say.

The order of events: selectors, conditions, functions; then the patch that leads from what was sent to what came out.

What hooks and conversions have in common: each is a value that a program lists under `webhooks`.
"""

import base64
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, Literal, TypedDict, TypeGuard, TypeVar, Unpack, cast, get_args, overload

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
from levelset.objects.names import check_dns1123_subdomain, is_qualified_name
from levelset.objects.ref import GroupVersionKind
from levelset.objects.resource import Object
from levelset.objects.unstructured import Unstructured
from levelset.patch import diff_operations

__all__ = [
    "LONGEST_WARNING",
    "Called",
    "Changes",
    "Checks",
    "FailurePolicy",
    "Hook",
    "HookOptions",
    "Match",
    "Notes",
    "Operation",
    "Review",
    "SideEffects",
    "User",
    "Webhook",
    "answer",
    "call",
    "defaults",
    "fit_warnings",
    "read_function",
    "refusal",
    "validates",
]

K = TypeVar("K")

Operation = Literal["connect", "create", "delete", "update"]

LONGEST_WARNING: Final = 256
"""More of one warning an API server cuts off."""
_ALL_WARNINGS: Final = 4096


@dataclass(frozen=True, slots=True)
class User:
    """Who sent the request, as the server has found out."""

    name: str
    groups: Sequence[str] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])


@dataclass(slots=True)
class Notes:
    """What functions have said about a request beside yes and no."""

    warnings: list[str] = field(default_factory=list[str])
    audit: dict[str, str] = field(default_factory=dict[str, str])


class Review(Generic[K]):
    """One question, whether something may be written and as what.

    `new` is the object as it would be stored, with what functions before this one have changed; when an object is to be
    deleted, it is the one that goes. `old` is the object before, None if there is none; it is read when it is asked
    for, so that an object that no longer fits its class can still be mended. `dry_run` says that nothing will be
    stored: a function with effects of its own must not have them then.
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
        """The object that is asked about."""
        return self._new()

    @property
    def old(self) -> K | None:
        """The object before; None when it is created. BadObject if its class cannot hold it."""
        return self._old()

    @property
    def client(self) -> Client:
        """A client of the server that asks; NotReady where the function is called without one."""
        if self._client is None:
            raise NotReady("there is no client here: run the webhooks in a manager, or give Endpoint(client=...)")
        return self._client

    def warn(self, text: str) -> None:
        """Tells whoever sent the request, whether it is allowed or not; kubectl prints it. Short is better."""
        self._notes.warnings.append(text)

    def annotate(self, key: str, value: str) -> None:
        """Puts a note about this decision into the server's audit log."""
        self._notes.audit[key] = value

    def __repr__(self) -> str:
        where = "/".join(one for one in (self.namespace, self.name, self.subresource) if one)
        return f"Review({self.operation} {where} for {self.user.name})"


def fit_warnings(warnings: Sequence[str]) -> list[str]:
    """The warnings as an API server takes them: one line each, none too long, and not too much of all together."""
    fitted: list[str] = []
    left = _ALL_WARNINGS
    for text in warnings:
        line = " ".join("".join(one if one.isprintable() else " " for one in str(text)).split())
        line = line if len(line) <= LONGEST_WARNING else f"{line[: LONGEST_WARNING - 3]}..."
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


Changes = (
    Callable[[K], K | Awaitable[K]]
    | Callable[[K, Review[K]], K | Awaitable[K]]
    | Callable[[Review[K]], K | Awaitable[K]]
)
"""Gives the object that is to be stored: the one that it got, or a changed one."""
Checks = (
    Callable[[K], Awaitable[None] | None]
    | Callable[[K, Review[K]], Awaitable[None] | None]
    | Callable[[Review[K]], Awaitable[None] | None]
)
"""Raises if the object is not to be stored."""

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Called(Generic[K]):
    """A function, what messages call it, and what it is given."""

    function: Callable[..., Any]
    name: str
    takes: Literal["both", "object", "review"]


def read_function(function: Any) -> Called[Any]:
    """How a function is to be called; ConfigError for what takes neither an object nor a review."""
    name = getattr(function, "__name__", type(function).__name__)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise ConfigError(f"{function!r} cannot be called for an admission: give a function of the object") from None
    if any(one.kind is inspect.Parameter.KEYWORD_ONLY and one.default is one.empty for one in parameters):
        raise ConfigError(f"{name} needs keywords that nobody gives: an admission function takes (object, review)")
    taken = [one for one in parameters if one.kind in _POSITIONAL and one.default is one.empty]
    match taken:
        case [only]:
            return Called(function, name, "review" if _is_review(only) else "object")
        case [_, _]:
            return Called(function, name, "both")
        case _:
            raise ConfigError(f"{name} takes {len(taken)} arguments: an admission function takes (object, review)")


async def call(called: Called[K], obj: K, review: Review[K]) -> Any:
    """What the function returns or raises."""
    match called.takes:
        case "both":
            said = called.function(obj, review)
        case "review":
            said = called.function(review)
        case "object":
            said = called.function(obj)
    return await said if inspect.isawaitable(said) else said


def _is_review(parameter: inspect.Parameter) -> bool:
    said = parameter.annotation
    if said is parameter.empty:
        return parameter.name == "review"
    if isinstance(said, str):  # annotations that are read later, as `from __future__ import annotations` has them
        return said.partition("[")[0].rpartition(".")[2] == "Review"
    return said is Review or getattr(said, "__origin__", None) is Review


_log: Final = logging.getLogger("levelset.runtime.webhook")

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


class Webhook:
    """A part of a program's admission or conversion; made by `defaults`, `validates` and `converts`."""

    __slots__ = ()


O = TypeVar("O", bound=Object)  # noqa: E741  # the letter the type checker shows

FailurePolicy = Literal["Fail", "Ignore"]
SideEffects = Literal["None", "NoneOnDryRun"]

_OPERATIONS: Final = get_args(Operation)
_UNNAMED: Final = re.compile(r"[^a-z0-9]+")
_WRITES: Final = ("create", "update")
_MOST_CONDITIONS: Final = 64
_LONGEST_TIMEOUT: Final = 30


@dataclass(frozen=True)  # without slots, since `Match[Site](...)` sets an attribute of its own
class Match(Generic[K]):
    """A condition of being asked at all, said twice: as CEL for the server, and as a function for this process.

    The server then need not even send what is of no interest. `name` is what its messages call the condition.
    """

    name: str
    cel: str
    check: Callable[[Review[K]], bool]


When = Callable[[Review[K]], bool] | Match[K]
"""Whether the functions are to be asked about this."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hook(Webhook):
    """Functions that are asked before writes of one kind; made by `defaults` and `validates`."""

    kind: type[Any] | GroupVersionKind
    gvk: GroupVersionKind
    plural: str
    namespaced: bool | None
    functions: Sequence[Called[Any]]
    mutates: bool
    name: str
    operations: Sequence[Operation]
    subresources: Sequence[str] = ()
    conditions: Sequence[Callable[[Review[Any]], bool]] = ()
    """What must be true of a review so that the functions are asked."""
    expressions: Mapping[str, str] = field(default_factory=dict[str, str])
    """The conditions that a server can look at by itself: CEL by name."""
    failure_policy: FailurePolicy = "Fail"
    timeout: float = 10.0
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    side_effects: SideEffects = "None"
    reinvokes: bool = False
    client: Client | None = None

    @property
    def path(self) -> str:
        """Where it is served: it changes only if the name of the hook does."""
        return f"/{'default' if self.mutates else 'validate'}/{self.name}"

    def matches(self, operation: str, place: tuple[str, str, str], subresource: str, /) -> bool:
        """Whether it is for this operation on this group, version and resource."""
        if place != (self.gvk.group, self.gvk.version, self.plural) or operation.lower() not in self.operations:
            return False
        parts = self.subresources or ("",)
        return subresource in parts or ("*" in parts and subresource != "")

    async def review(self, request: Mapping[str, Any], space: Mapping[str, Any] | None = None, /) -> dict[str, Any]:
        """The `response` to the `request` of an AdmissionReview; raises nothing but cancellation."""
        return await answer(self, request, space)

    def with_client(self, client: Client | None) -> "Hook":
        """The same hook, whose functions find this client in their review."""
        return replace(self, client=client)

    def __repr__(self) -> str:
        return f"{'defaults' if self.mutates else 'validates'}({self.gvk}, {self.name})"


class HookOptions(TypedDict, total=False):
    """What `defaults` and `validates` can be told beside the functions; see there."""

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


@overload
def defaults(kind: type[O], /, *functions: Changes[O], **options: Unpack[HookOptions]) -> Hook: ...
@overload
def defaults(kind: GroupVersionKind, /, *functions: Changes[Unstructured], **options: Unpack[HookOptions]) -> Hook: ...
def defaults(kind: Any, /, *functions: Any, **options: Unpack[HookOptions]) -> Hook:
    """Has objects changed before they are judged: each function returns the object that it wants.

    The functions are called one after the other, and each gets what the one before has made of the object. The options
    are those of `validates`; with `reinvoke` the functions are called once more if another hook, asked after them, has
    changed the object too. An object that the class cannot hold is refused before any function sees it: for values that
    the class requires and a function would fill in, give the kind as a GroupVersionKind and change trees.
    """
    hook = _hook(kind, functions, options, mutates=True)
    if "delete" in hook.operations:
        raise ConfigError(f"{hook.name}: nothing can be changed in an object that is deleted; use validates")
    return hook


@overload
def validates(kind: type[O], /, *functions: Checks[O], **options: Unpack[HookOptions]) -> Hook: ...
@overload
def validates(kind: GroupVersionKind, /, *functions: Checks[Unstructured], **options: Unpack[HookOptions]) -> Hook: ...
def validates(kind: Any, /, *functions: Any, **options: Unpack[HookOptions]) -> Hook:
    """Has writes refused: each function raises `Denied`, or `Invalid` with causes, for what must not be stored.

    A function takes the object, the object and a `Review`, or the review alone; it may be a coroutine function. The
    options: `on` are the operations that are asked about: "create" and "update" unless given, "delete", "connect".
    `subresources` are asked about in place of the object itself, which is the empty text, as in `("", "status")`.
    `when` is a function of the review, or a `Match`, or several: all must be true. `namespace_selector` and
    `object_selector`, as text or LabelSelector, choose by labels. `timeout` is how many seconds, 1 to 30, the functions
    may take; only one that awaits can be ended. What fails otherwise is refused, or with `failure_policy="Ignore"` let
    pass with a warning. `side_effects="NoneOnDryRun"` says that a function has effects, except when `review.dry_run`.
    `name` is a domain name of three parts, made of the function and the kind unless given; `plural` is for a kind
    without a class.
    """
    hook = _hook(kind, functions, options, mutates=False)
    if hook.reinvokes:
        raise ConfigError(f"{hook.name}: a check is asked last, and once; reinvoke is for defaults")
    return hook


def _hook(kind: Any, functions: Sequence[Any], options: HookOptions, *, mutates: bool) -> Hook:
    view = view_of(kind)
    if view.is_metadata:
        raise ConfigError(f"an admission of {view.gvk.kind} sees whole objects; give the class or a GroupVersionKind")
    if not functions:
        raise ConfigError(f"an admission of {view.gvk.kind} needs a function to ask")
    called = [read_function(one) for one in functions]
    definition = view.definition
    known = plural_of(view.gvk.kind) if definition is None else definition.plural
    plural = options.get("plural") or known
    named = options.get("name") or f"{_word(called[0].name)}.{plural}.{view.gvk.group or 'core'}"
    made: Hook = Hook(
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
    """The options as attributes of a hook, but those that make its name and its rules."""
    unknown = sorted(options.keys() - HookOptions.__annotations__.keys())
    if unknown:
        known = ", ".join(sorted(HookOptions.__annotations__))
        raise ConfigError(f"{name}: there is no option {unknown[0]}; there are {known}")
    read: dict[str, Any] = {word: value for word, value in options.items() if word not in ("name", "on", "plural")}
    for word in ("namespace_selector", "object_selector"):
        read[word] = _selector(name, word, options.get(word))
    read["reinvokes"] = bool(read.pop("reinvoke", False))
    read["subresources"] = _several(options.get("subresources", ()))
    when: Any = read.pop("when", ())
    several: list[Any] = [when] if callable(when) or _is_match(when) else list(when)
    matches = [one for one in several if _is_match(one)]
    read["expressions"] = {one.name: one.cel for one in matches}
    if len(matches) > _MOST_CONDITIONS or len(read["expressions"]) < len(matches):
        raise ConfigError(f"{name}: at most {_MOST_CONDITIONS} matches, each with a name of its own")
    read["conditions"] = tuple(one.check if _is_match(one) else one for one in several)
    return read


def _is_match(one: Any) -> TypeGuard[Match[Any]]:
    return isinstance(one, Match)


def _check(hook: Hook, *, is_typed: bool) -> None:
    if check_dns1123_subdomain(hook.name) or hook.name.count(".") < 2:
        raise ConfigError(f"name {hook.name!r}: the name of a webhook is a domain name such as check.websites.shop.dev")
    if not 1 <= hook.timeout <= _LONGEST_TIMEOUT:
        raise ConfigError(f"{hook.name}: timeout={hook.timeout} must lie between 1 and {_LONGEST_TIMEOUT} seconds")
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
            f"{hook.name}: what {what} shows is no {hook.gvk.kind}; give {hook.gvk!r} instead of the class"
        )
    for condition, cel in hook.expressions.items():
        if not is_qualified_name(condition) or not cel.strip():
            raise ConfigError(f"{hook.name}: Match {condition!r} needs a name such as not-paused, and an expression")


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
        raise ConfigError(f"{name}: {word}={given!r} is no selector: {error}") from error


def _several(given: Any) -> tuple[Any, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _word(name: str) -> str:
    return _UNNAMED.sub("-", name.lower()).strip("-") or "check"
