"""Admission as values: `defaults(Website, latest_image)` and `validates(Website, sensible)`.

A hook says what it is for and which functions are asked. It does nothing by itself: given to an `ApiServer`, a manager
or an `Endpoint`, it is asked before every write that it is for. To refuse is to raise, to change is to return the
changed object.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, Literal, TypedDict, TypeGuard, TypeVar, Unpack, get_args, overload

from levelset.client.client import Client
from levelset.client.kinds import view_of
from levelset.errors import BadSelector, ConfigError
from levelset.objects.definition import plural_of
from levelset.objects.identity import GroupVersionKind
from levelset.objects.names import check_dns1123_subdomain, is_qualified_name
from levelset.objects.resource import Object
from levelset.objects.selectors import LabelSelector
from levelset.objects.unstructured import Unstructured
from levelset.webhook import answering
from levelset.webhook.calling import Called, Changes, Checks, read_function
from levelset.webhook.review import Operation, Review
from levelset.webhook.values import Webhook

__all__ = ["FailurePolicy", "Hook", "HookOptions", "Match", "SideEffects", "defaults", "validates"]

K = TypeVar("K")
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
        return await answering.answer(self, request, space)

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
