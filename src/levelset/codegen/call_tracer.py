"""Traces which requests a reconciler can send: interprets its source with abstract values, without running it.

Followed are functions, methods (inherited and `super()` ones too), attributes of objects, closures, lambdas, partials,
decorated functions, callable objects, and what a class stores of its arguments. Each variable holds all that was ever
assigned to it, so the result includes the calls of every branch. A call that gets the Context, a client or a cluster
and cannot be followed is reported as `Unfollowed`.
"""

import ast
import dataclasses
import importlib
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from types import FunctionType, ModuleType
from typing import Any, Final, cast

from levelset.client.object_types import OnlyMetadata, view_of
from levelset.codegen.call_values import (
    UNKNOWN,
    Arguments,
    Bound,
    Element,
    Frame,
    FunctionNode,
    Handle,
    Items,
    Known,
    Local,
    Method,
    Of,
    Packed,
    Partial,
    Sources,
    Super,
    Value,
    contains_handle,
    flat,
    instances_of,
    is_kind,
    is_standard,
    kind_in,
    known,
    root_module,
)
from levelset.objects import GroupVersionKind, Ref, parse_api_version

__all__ = ["CachedRead", "ContextCall", "Trace", "Unfollowed", "trace_calls"]

_MAX_DEPTH: Final = 60
_MAX_BODIES: Final = 20_000
_MAX_ROUNDS: Final = 8
_MAX_ITEMS: Final = 1_000
# How often a function is entered again from itself, each time with other arguments.
_MAX_RECURSION: Final = 3
_OURS: Final = "levelset"
_STATUS_WRITES: Final = frozenset({"set_condition", "set_status", "update_status"})
_WRITES: Final = _STATUS_WRITES | {
    *("apply", "create", "delete", "delete_collection", "ensure", "patch", "save", "scale", "update")
}
_READS: Final = frozenset(
    ["declare", "each", "find", "first", "get", "get_scale", "list", "live", "logs", "wait", "wait_gone", "watch"]
)
# Reads of the Context that come from the cache of a declared kind; with `read=` they may go to the API server.
_CACHED_READS: Final = frozenset({"cached", "children", "find", "get", "list"})
# Methods that put their arguments into a container.
_STORES: Final = frozenset({"add", "append", "appendleft", "extend", "insert", "put", "put_nowait", "setdefault"})
_CALLERS: Final = frozenset({"call_soon", "create_task", "map", "partial", "run_in_executor", "starmap", "to_thread"})


@dataclass(frozen=True, slots=True)
class ContextCall:
    """One call on a Context, a client or a cluster.

    `is_own` says that its target is the reconciled object, `kind` is the kind of another target (None: not known), and
    `subresource` the constant of that name, if there is one.
    """

    name: str
    is_own: bool
    kind: Any = None
    subresource: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Unfollowed:
    """A call that gets the Context, a client or a cluster, and whose code is not known."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"could not follow {self.what} ({place})"


@dataclass(frozen=True, slots=True)
class CachedRead:
    """A read of the Context that comes from the cache, of objects of a kind other than the reconciled one."""

    file: str
    line: int
    what: str
    kind: Any


@dataclass(frozen=True, slots=True)
class Trace:
    """What functions may call; `is_complete` is False if the source of one of them is not available.

    `untyped` are the writes whose target may be of any kind, `reads` what is read from the cache.
    """

    calls: frozenset[ContextCall]
    unfollowed: tuple[Unfollowed, ...]
    untyped: tuple[Unfollowed, ...]
    reads: frozenset[CachedRead]
    is_complete: bool


def trace_calls(*functions: Callable[..., Any] | None, kind: Any = None) -> Trace:
    """The calls of reconcilers and handlers of a kind, each of which gets the object first and the Context last."""
    tracer = _Tracer(kind)
    given = [one for one in functions if one is not None]
    is_complete = tracer.run(given)
    unfollowed, untyped = tuple(sorted(tracer.unfollowed)), tuple(sorted(tracer.untyped))
    return Trace(frozenset(tracer.calls), unfollowed, untyped, frozenset(tracer.reads), is_complete)


class _Tracer:
    """Interprets functions until nothing new is found."""

    def __init__(self, kind: Any) -> None:
        self._sources = Sources()
        self._kind = kind_in(kind)
        self._gvk = None if kind is None else view_of(kind).gvk
        self._own: Value = frozenset({Of(self._kind or "own", is_own=True)})
        self.calls: set[ContextCall] = set()
        self.unfollowed: set[Unfollowed] = set()
        self.untyped: set[Unfollowed] = set()
        self.reads: set[CachedRead] = set()
        # What was assigned to attributes, by object or class, and what each function returned for which arguments.
        self._attributes: dict[tuple[Any, str], Value] = {}
        self._returned: dict[tuple[Any, ...], Value] = {}
        self._done: set[tuple[Any, ...]] = set()
        self._called: set[FunctionNode] = set()
        self._named: dict[Element, None] = {}
        self._roots: set[str] = set()
        self._depth = 0
        self._active: Counter[FunctionNode] = Counter()
        self._site: tuple[ast.Call, Frame] | None = None

    def run(self, functions: Iterable[Callable[..., Any]]) -> bool:
        """Traces until nothing changes; returns whether the source of all of them was found."""
        several = tuple(functions)
        self._roots = {root_module(_code_owner(one)) for one in several} - {_OURS}
        is_complete = True
        for _ in range(_MAX_ROUNDS):
            before = self._size()
            self._start_round()
            unread = [one for one in several if self._follow_entry(one) is None]
            is_complete = not unread
            self.unfollowed |= {_unread(one) for one in unread}
            self._follow_named()
            if self._size() == before:
                break
        return is_complete

    def _size(self) -> tuple[int, int, int]:
        return len(self.calls), sum(map(len, self._attributes.values())), sum(map(len, self._returned.values()))

    def _start_round(self) -> None:
        self._done.clear()
        self._called.clear()
        self._named.clear()
        self.calls.clear()
        self.unfollowed.clear()
        self.untyped.clear()

    def _follow_entry(self, function: Callable[..., Any]) -> Value | None:
        """Follows a reconciler (object, ctx) or a handler (object, error, ctx); None without its source."""
        if is_standard(_code_owner(function)):
            return None
        context: Value = frozenset({Handle.CONTEXT})
        count = _positional_count(function)
        middle = [UNKNOWN] * max(0, count - 2)
        results = [self._follow(one, Arguments((self._own, *middle, context))) for one in known(function)]
        return None if None in results else _union(results)

    def _follow_named(self) -> None:
        """Follows functions that are only named, in a table or as a callback, with hints from parameter names."""
        for one in tuple(self._named):
            function = one.function if isinstance(one, Bound) else one.value if isinstance(one, Known) else None
            node = self._sources.node_of(function) if isinstance(function, FunctionType) else None
            if node is not None and node not in self._called and root_module(function) in self._roots:
                first = (frozenset({one.receiver}),) if isinstance(one, Bound) else ()
                self._function(function, Arguments(first), is_hinted=True)  # type: ignore[arg-type]

    # --- functions ------------------------------------------------------------------------------------------------

    def _follow(self, called: Element, arguments: Arguments) -> Value | None:
        """What a call returns; None if its code is not known."""
        match called:
            case Method():
                return self._context_call(called, arguments)
            case Bound():
                return self._function(called.function, arguments.after(frozenset({called.receiver})))
            case Local():
                return self._body(called.node, called.frame.function, called.frame, arguments)
            case Partial():
                return self._partial(called.function, called.arguments, arguments)
            case Items():
                return self._items(called, arguments)
            case Known():
                return self._known_call(called.value, arguments)
            case Of() if isinstance(called.kind, type):
                return self._call_object(called, called.kind, arguments)
            case _:
                return None

    def _partial(self, function: Value, first: Arguments, more: Arguments) -> Value | None:
        both = Arguments((*first.parts, *more.parts), (*first.named, *more.named), first.rest | more.rest)
        return _union(self._follow(one, both) for one in function)

    def _items(self, called: Items, arguments: Arguments) -> Value:
        if contains_handle(arguments.all()):
            self._store(called.container, "[]", arguments.all())
        return called.values

    def _known_call(self, called: Any, arguments: Arguments) -> Value | None:
        if isinstance(called, partial):
            made = cast("Any", called)
            named = tuple((name, known(value)) for name, value in made.keywords.items())
            return self._partial(known(made.func), Arguments(tuple(map(known, made.args)), named), arguments)
        if isinstance(called, FunctionType):
            return self._function(called, arguments)
        if isinstance(called, type):
            return self._construct(called, arguments)
        class_ = _class_of(called)
        if is_standard(class_) and not isinstance(_static(class_, "__call__"), FunctionType):
            return self._library(called, arguments)
        return self._call_object(Known(called), class_, arguments)

    def _call_object(self, called: Element, class_: type[Any], arguments: Arguments) -> Value | None:
        function = _static(class_, "__call__")
        if not isinstance(function, FunctionType):
            return None
        return self._function(function, arguments.after(frozenset({called})))

    def _function(self, function: FunctionType, arguments: Arguments, *, is_hinted: bool = False) -> Value | None:
        given = arguments.all()
        node = None if is_standard(function) else self._sources.node_of(function)
        wrapped = getattr(function, "__wrapped__", None)
        if node is None and wrapped is not None:
            return _union(self._follow(one, arguments) for one in known(wrapped))
        if is_standard(function):
            return self._library(function, arguments)
        has_handle = contains_handle(given)
        if not has_handle and root_module(function) not in self._roots:
            # `Site.new(...)`, `site.with_spec(...)` and `replace(site, ...)` return what their first argument is.
            first = Arguments(arguments.parts[:1]) if root_module(function) == _OURS else arguments
            return self._returned_by_library(first)
        if node is None:
            return None if has_handle else UNKNOWN
        return self._body(node, function, None, arguments, is_hinted=is_hinted)

    def _body(
        self,
        node: FunctionNode,
        function: FunctionType,
        parent: Frame | None,
        arguments: Arguments,
        *,
        is_hinted: bool = False,
    ) -> Value | None:
        key = (node, function, parent, arguments, is_hinted)
        self._called.add(node)
        if key in self._done or self._active[node] > _MAX_RECURSION:
            return self._returned.get(key, UNKNOWN)
        if self._depth >= _MAX_DEPTH or len(self._done) >= _MAX_BODIES:
            return None if contains_handle(arguments.all()) else UNKNOWN
        self._done.add(key)
        frame = Frame(function, node, parent)
        self._bind(frame, arguments, is_hinted=is_hinted)
        self._active[node] += 1
        self._depth += 1
        self._run_body(frame)
        self._depth -= 1
        self._active[node] -= 1
        self._returned[key] = self._returned.get(key, UNKNOWN) | frame.returned
        return self._returned[key]

    def _run_body(self, frame: Frame) -> None:
        # Twice: a variable of a loop may get its value further down.
        for _ in range(2):
            if isinstance(frame.node, ast.Lambda):
                frame.returned |= self._value(frame.node.body, frame)
            else:
                for one in frame.node.body:
                    self._statement(one, frame)
        for local in tuple(frame.locals.values()):
            if local.node not in self._called:
                self._body(local.node, frame.function, frame, Arguments(), is_hinted=True)

    def _bind(self, frame: Frame, arguments: Arguments, *, is_hinted: bool) -> None:
        """Sets the parameters of a function: from the arguments, else from annotations, and hints from names."""
        syntax = frame.node.args
        positional = [*syntax.posonlyargs, *syntax.args]
        named = dict(arguments.named)
        for place, one in enumerate(positional):
            value = arguments.parts[place] if place < len(arguments.parts) else named.pop(one.arg, arguments.rest)
            frame.names[one.arg] = value or self._annotated(one.annotation, frame)
        for one in syntax.kwonlyargs:
            frame.names[one.arg] = named.pop(one.arg, arguments.rest) or self._annotated(one.annotation, frame)
        self._bind_defaults(frame)
        if syntax.vararg is not None:
            more = Packed(arguments.parts[len(positional) :])
            frame.names[syntax.vararg.arg] = frozenset({more}) | arguments.rest
        if syntax.kwarg is not None:
            frame.names[syntax.kwarg.arg] = UNKNOWN.union(*named.values(), arguments.rest)
        if is_hinted:
            self._bind_hints(frame, positional)

    def _bind_defaults(self, frame: Frame) -> None:
        """Sets parameters that were not given to their defaults, which often hold a function or a value of a loop."""
        syntax, around = frame.node.args, frame.parent
        positional = [*syntax.posonlyargs, *syntax.args]
        pairs = [*zip(reversed(positional), reversed(syntax.defaults), strict=False)]
        pairs += [(one, value) for one, value in zip(syntax.kwonlyargs, syntax.kw_defaults, strict=True) if value]
        for one, default in pairs:
            if not frame.names[one.arg]:
                frame.names[one.arg] = self._value(default, around or Frame(frame.function, frame.node))

    def _bind_hints(self, frame: Frame, positional: list[ast.arg]) -> None:
        before = ""
        for one in positional:
            if one.arg in ("context", "ctx") and not frame.names[one.arg]:
                frame.names[one.arg] = frozenset({Handle.CONTEXT})
            if Handle.CONTEXT in frame.names[one.arg] and before not in ("", "self") and not frame.names[before]:
                frame.names[before] = self._own
            before = one.arg

    def _annotated(self, annotation: ast.expr | None, frame: Frame) -> Value:
        match annotation:
            case ast.Constant(value=str(text)):
                try:
                    return self._annotated(ast.parse(text, mode="eval").body, frame)
                except SyntaxError:
                    return UNKNOWN
            case ast.BinOp():
                return self._annotated(annotation.left, frame) | self._annotated(annotation.right, frame)
            case ast.Name() | ast.Attribute():
                found = self._value(annotation, Frame(frame.function, frame.node, frame.parent))
                values = [instances_of(one.value) for one in found if isinstance(one, Known)]
                return frozenset(self._owned(one) for value in values for one in value)
            case _:
                return UNKNOWN

    # --- classes and libraries ------------------------------------------------------------------------------------

    def _construct(self, class_: type[Any], arguments: Arguments) -> Value | None:
        if is_kind(class_):
            return frozenset({self._owned(Of(class_))})
        if class_ in (Ref, OnlyMetadata):
            return self._target(arguments) or UNKNOWN
        if is_standard(class_):
            return self._library(class_, arguments)
        made = Of(class_)
        is_stored = self._store_fields(made, class_, arguments)
        started = [_static(class_, name) for name in ("__new__", "__init__", "__post_init__")]
        for function in started:
            if isinstance(function, FunctionType) and self._sources.node_of(function) is not None:
                given = Arguments() if function.__name__ == "__post_init__" else arguments
                self._function(function, given.after(frozenset({made})))
                is_stored = True
        return frozenset({made}) if is_stored or not contains_handle(arguments.all()) else None

    def _store_fields(self, made: Of, class_: Any, arguments: Arguments) -> bool:
        """Stores the arguments of dataclasses, structs and named tuples, whose constructors have no source."""
        names: tuple[str, ...] = getattr(class_, "__struct_fields__", ()) or getattr(class_, "_fields", ())
        if dataclasses.is_dataclass(class_):
            names = tuple(one.name for one in dataclasses.fields(class_) if one.init)
        for place, name in enumerate(names):
            self._store(made, name, arguments.find(place, name))
        return bool(names)

    def _library(self, called: Any, arguments: Arguments) -> Value | None:
        """A function of the standard library: it may call its first argument with the others."""
        name = getattr(called, "__name__", "")
        if name == "getattr" and contains_handle(arguments.find(0)):
            return None
        rest = Arguments(arguments.parts[1:], arguments.named, arguments.rest)
        if called is partial:
            made = Partial(arguments.find(0), rest)
            self._named_partial(made)
            return frozenset({made}) if made.function or not contains_handle(rest.all()) else None
        if name in _CALLERS or contains_handle(arguments.all()):
            results = [self._follow(one, rest) for one in arguments.find(0) if isinstance(one, Bound | Local | Partial)]
            plain = [one for one in arguments.find(0) if isinstance(one, Known) and isinstance(one.value, FunctionType)]
            results += [self._follow(one, rest) for one in plain]
            if not results and name in _CALLERS and contains_handle(rest.all()):
                return None
            return _union([*results, self._returned_by_library(arguments)])
        return self._returned_by_library(arguments)

    def _named_partial(self, made: Partial) -> None:
        """A partial may be called anywhere: it is followed where it is made, with hints for what is still missing."""
        for one in made.function:
            match one:
                case Known(value=FunctionType() as function):
                    self._function(function, made.arguments, is_hinted=True)
                case Bound():
                    self._function(one.function, made.arguments.after(frozenset({one.receiver})), is_hinted=True)
                case Local():
                    self._body(one.node, one.frame.function, one.frame, made.arguments, is_hinted=True)
                case _:
                    self._follow(one, made.arguments)

    def _returned_by_library(self, arguments: Arguments) -> Value:
        """What a library returns is made from its arguments: `sorted(children)`, `Site.new(...)`."""
        found: set[Element] = set()
        for one in flat(arguments.all()):
            if isinstance(one, Known) and is_kind(one.value):
                found.add(self._owned(Of(kind_in(one.value))))
            elif not isinstance(one, Known | Packed):
                found.add(one)
        return frozenset(found)

    # --- requests -------------------------------------------------------------------------------------------------

    def _owned(self, one: Element) -> Element:
        """The element, marked as the reconciled object if it is of that kind."""
        if isinstance(one, Of) and self._gvk is not None and is_kind(one.kind) and view_of(one.kind).gvk == self._gvk:
            return Of(self._kind, is_own=True)
        return one

    def _target(self, arguments: Arguments) -> Value:
        """The objects, refs and kinds in the first argument of a request, as objects."""
        found: set[Element] = set()
        for one in flat(arguments.find(0, "child", "obj", "kind", "ref", "what")):
            match one:
                case Of() if one.is_own or is_kind(one.kind):
                    found.add(self._owned(one))
                case Known() if is_kind(one.value):
                    found.add(self._owned(Of(kind_in(one.value))))
                case _:
                    pass
        return frozenset(found)

    def _context_call(self, called: Method, arguments: Arguments) -> Value:
        name, target = called.name, self._target(arguments)
        if name == "in_namespace":
            return frozenset({Handle.CLIENT})
        is_cached = called.of is Handle.CONTEXT and name in _CACHED_READS and not arguments.has("read")
        if name == "record" or name in _WRITES or (name in _READS and not is_cached):
            self._add_calls(name, target, self._subresource(arguments))
        if is_cached:
            self._add_reads(target)
        if name in ("background", "ensure", "wait"):
            for one in flat(arguments.all()):
                if isinstance(one, Bound | Local | Partial):
                    self._follow(one, Arguments())
        return target

    def _add_calls(self, name: str, target: Value, subresource: str) -> None:
        """Records a call for each possible target; one whose kind is not known may be the own object or any other."""
        for one in target:
            if isinstance(one, Of):
                self.calls.add(ContextCall(name, one.is_own, None if one.is_own else one.kind, subresource))
        if not target:
            self.calls.add(ContextCall(name, is_own=True, subresource=subresource))
            self.calls.add(ContextCall(name, is_own=False, subresource=subresource))
            if name in _WRITES and self._site is not None:
                node, frame = self._site
                what = f"the kind of what {ast.unparse(node.func)}() writes"
                self.untyped.add(Unfollowed(frame.function.__code__.co_filename, node.lineno, what))

    def _add_reads(self, target: Value) -> None:
        """Records a read from the cache for each kind that its target may have."""
        if self._site is not None:
            node, frame = self._site
            for one in target:
                if isinstance(one, Of) and not one.is_own and is_kind(one.kind):
                    file = frame.function.__code__.co_filename
                    self.reads.add(CachedRead(file, node.lineno, f"{ast.unparse(node.func)}()", one.kind))

    def _subresource(self, arguments: Arguments) -> str:
        found = arguments.find(len(arguments.parts), "subresource")
        texts = [one.value for one in found if isinstance(one, Known) and isinstance(one.value, str)]
        return "*" if arguments.has("subresource") and not found else texts[0] if texts else ""

    # --- attributes -----------------------------------------------------------------------------------------------

    def _store(self, owner: Element, name: str, value: Value) -> None:
        key = (_attribute_key(owner), name)
        self._attributes[key] = self._attributes.get(key, UNKNOWN) | value

    def _attribute(self, owner: Element, name: str) -> Value:
        match owner:
            case Handle():
                return self._handle_attribute(owner, name)
            case Super():
                return self._from_classes(_after(owner), name, owner.receiver)
            case Known(value=ModuleType() as module):
                return known(getattr(module, name)) if hasattr(module, name) else UNKNOWN
            case Known(value=type() as class_):
                return self._from_classes(class_.__mro__, name, None, owner) | self._assigned(owner, name)
            case Known():
                return self._known_attribute(owner, name)
            case Of():
                return self._instance_attribute(owner, name)
            case _:
                return UNKNOWN

    def _handle_attribute(self, owner: Handle, name: str) -> Value:
        if name == "client" and owner is not Handle.CLIENT:
            return frozenset({Handle.CLIENT})
        if owner is Handle.CONTEXT and name == "cluster":
            return frozenset({Handle.CLUSTER})
        if owner is Handle.CONTEXT and name in ("object", "ref"):
            return self._own
        return frozenset({Method(owner, name)})

    def _assigned(self, owner: Element, name: str) -> Value:
        found = self._attributes.get((_attribute_key(owner), name), UNKNOWN)
        if isinstance(owner, Known) and not isinstance(owner.value, type):
            found |= self._attributes.get((_class_of(owner.value), name), UNKNOWN)
        return found

    def _known_attribute(self, owner: Known, name: str) -> Value:
        value, class_ = owner.value, _class_of(owner.value)
        assigned = self._assigned(owner, name)
        if is_standard(class_):
            held = _known_items(value) | self._assigned(owner, "[]")
            return frozenset({Items(held, owner)}) | assigned
        try:
            own: Any = object.__getattribute__(value, "__dict__")
        except AttributeError:
            own = {}
        if name in own:
            return known(own[name]) | assigned
        return self._from_classes(class_.__mro__, name, owner) | assigned

    def _instance_attribute(self, owner: Of, name: str) -> Value:
        if (owner.is_own or is_kind(owner.kind)) and name == "ref":
            return frozenset({owner})
        if not isinstance(owner.kind, type):
            return UNKNOWN
        class_: type[Any] = owner.kind
        found = self._assigned(owner, name) | self._from_classes(class_.__mro__, name, owner)
        if not is_kind(class_):  # the object may be of a subclass, which overrides the method
            for one in _subclasses(class_):
                found |= self._from_classes((one,), name, owner)
        return found or self._declared(class_, name)

    def _declared(self, class_: type[Any], name: str) -> Value:
        """The attribute as it is annotated in the class."""
        try:
            hints = inspect.get_annotations(class_, eval_str=True)
        except Exception:  # noqa: BLE001  # annotations are arbitrary code
            return UNKNOWN
        return frozenset(self._owned(one) for one in instances_of(hints.get(name)))

    def _from_classes(
        self, classes: Iterable[type[Any]], name: str, receiver: Element | None, class_: Known | None = None
    ) -> Value:
        """The attribute of the first of the classes that has it, bound to the receiver."""
        for one in classes:
            if name in vars(one):
                return self._descriptor(vars(one)[name], one, receiver, class_)
        return UNKNOWN

    def _descriptor(self, found: Any, home: type[Any], receiver: Element | None, class_: Known | None) -> Value:
        if isinstance(found, staticmethod):
            return known(found.__func__)
        if isinstance(found, classmethod):
            function: Any = cast("Any", found).__func__
            owner = class_ or Known(_receiver_class(receiver) or home)
            return frozenset({Bound(function, owner)}) if isinstance(function, FunctionType) else UNKNOWN
        if receiver is None:
            return known(found)
        if isinstance(found, property | cached_property):
            getter: Any = found.fget if isinstance(found, property) else found.func
            is_followed = isinstance(getter, FunctionType) and root_module(getter) in self._roots
            return (self._follow(Bound(getter, receiver), Arguments()) if is_followed else None) or UNKNOWN
        if isinstance(found, FunctionType):
            return UNKNOWN if _is_abstract(found, home) else frozenset({Bound(found, receiver)})
        if inspect.isdatadescriptor(found):  # a slot
            if not isinstance(receiver, Known):
                return UNKNOWN
            slot: Any = found
            try:
                return known(slot.__get__(receiver.value, home))
            except AttributeError:
                return UNKNOWN
        return known(found)

    # --- statements -----------------------------------------------------------------------------------------------

    def _statement(self, node: ast.AST, frame: Frame) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._define(node, frame)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                self._assignment(node, frame)
            case ast.For() | ast.AsyncFor():
                self._assign(node.target, self._iterated(node.iter, frame), frame)
                for one in (*node.body, *node.orelse):
                    self._statement(one, frame)
            case ast.Return():
                frame.returned |= self._value(node.value, frame) if node.value else UNKNOWN
            case ast.Import() | ast.ImportFrom():
                self._import(node, frame)
            case ast.withitem():
                self._enter(node, frame)
            case ast.expr():
                self._value(node, frame)
            case _:
                for inner in ast.iter_child_nodes(node):
                    self._statement(inner, frame)

    def _assignment(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, frame: Frame) -> None:
        value = self._value(node.value, frame) if node.value else UNKNOWN
        if isinstance(node, ast.AnnAssign):
            value = value or self._annotated(node.annotation, frame)
        for target in node.targets if isinstance(node, ast.Assign) else (node.target,):
            self._assign(target, value, frame)

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> None:
        made: Value = frozenset({frame.locals.setdefault(node, Local(node, frame))})
        value = made
        for decorator in reversed(node.decorator_list):
            called = self._value(decorator, frame)
            results = [self._follow(one, Arguments((value,))) for one in called]
            value = _union(results) or value
        frame.add(node.name, value or made)

    def _import(self, node: ast.Import | ast.ImportFrom, frame: Frame) -> None:
        package = frame.function.__globals__.get("__package__") or ""
        for one in node.names:
            try:
                if isinstance(node, ast.Import):
                    module = importlib.import_module(one.name)
                    root = module if one.asname else importlib.import_module(one.name.partition(".")[0])
                    frame.add(one.asname or one.name.partition(".")[0], known(root))
                else:
                    module = importlib.import_module("." * node.level + (node.module or ""), package)
                    frame.add(one.asname or one.name, known(getattr(module, one.name)))
            except (ImportError, AttributeError, ValueError):
                continue

    def _enter(self, node: ast.withitem, frame: Frame) -> None:
        value = self._value(node.context_expr, frame)
        entered = value
        for name in ("__aenter__", "__enter__", "__aexit__", "__exit__"):
            for one in value:
                methods = self._attribute(one, name) if isinstance(one, Of | Known) else UNKNOWN
                results = [self._follow(method, Arguments()) for method in methods if isinstance(method, Bound)]
                entered |= _union(results)
        if node.optional_vars is not None:
            self._assign(node.optional_vars, entered, frame)

    def _assign(self, target: ast.expr, value: Value, frame: Frame) -> None:
        match target:
            case ast.Name():
                frame.add(target.id, value)
            case ast.Tuple() | ast.List():
                for place, one in enumerate(target.elts):
                    self._assign(one, _part(value, place, len(target.elts)), frame)
            case ast.Starred():
                self._assign(target.value, value, frame)
            case ast.Subscript():
                self._value(target.slice, frame)
                self._assign(target.value, value, frame)
            case ast.Attribute():
                owners = self._value(target.value, frame)
                for owner in owners:
                    self._store(owner, target.attr, value)
                if not owners and contains_handle(value):
                    self._report(target, frame, f"the assignment to {ast.unparse(target)}")
            case _:
                pass

    # --- expressions ----------------------------------------------------------------------------------------------

    def _value(self, node: ast.expr, frame: Frame) -> Value:
        match node:
            case ast.Name():
                return self._note(frame.find(node.id))
            case ast.Constant():
                return frozenset({Known(node.value)}) if isinstance(node.value, str) else UNKNOWN
            case ast.Attribute():
                owners = self._value(node.value, frame)
                return self._note(UNKNOWN.union(*(self._attribute(one, node.attr) for one in owners)))
            case ast.Call():
                return self._call(node, frame)
            case ast.Await() | ast.Starred():
                return self._value(node.value, frame)
            case ast.Yield() | ast.YieldFrom():
                frame.returned |= self._value(node.value, frame) if node.value else UNKNOWN
                return UNKNOWN
            case ast.Lambda():
                return frozenset({frame.locals.setdefault(node, Local(node, frame))})
            case ast.NamedExpr():
                value = self._value(node.value, frame)
                self._assign(node.target, value, frame)
                return value
            case _:
                return self._compound(node, frame)

    def _compound(self, node: ast.expr, frame: Frame) -> Value:
        match node:
            case ast.IfExp():
                self._value(node.test, frame)
                return self._value(node.body, frame) | self._value(node.orelse, frame)
            case ast.BoolOp():
                return UNKNOWN.union(*(self._value(one, frame) for one in node.values))
            case ast.Tuple() if not any(isinstance(one, ast.Starred) for one in node.elts):
                return frozenset({Packed(tuple(self._value(one, frame) for one in node.elts))})
            case ast.List() | ast.Set() | ast.Tuple():
                return UNKNOWN.union(*(self._value(one, frame) for one in node.elts))
            case ast.Dict():
                return self._dictionary(node, frame)
            case ast.Subscript():
                self._value(node.slice, frame)
                return self._iterated(node.value, frame)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node, frame)
            case _:
                for one in ast.iter_child_nodes(node):
                    self._statement(one, frame)
                return UNKNOWN

    def _dictionary(self, node: ast.Dict, frame: Frame) -> Value:
        values = [self._value(one, frame) for one in node.values]
        texts = {
            key.value: value.value
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and isinstance(value, ast.Constant)
        }
        api, kind = texts.get("apiVersion"), texts.get("kind")
        if isinstance(api, str) and isinstance(kind, str):
            return frozenset({self._owned(Of(GroupVersionKind(*parse_api_version(api), kind)))})
        return frozenset(one for one in UNKNOWN.union(*values) if not isinstance(one, Known) or callable(one.value))

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, frame: Frame) -> Value:
        for one in node.generators:
            self._assign(one.target, self._iterated(one.iter, frame), frame)
            for condition in one.ifs:
                self._value(condition, frame)
        if isinstance(node, ast.DictComp):
            self._value(node.key, frame)
            return self._value(node.value, frame)
        return self._value(node.elt, frame)

    def _iterated(self, node: ast.expr, frame: Frame) -> Value:
        """What iterating over an expression, or a subscript of it, gives."""
        found: set[Element] = set()
        for one in self._value(node, frame):
            match one:
                case Packed():
                    found |= UNKNOWN.union(*one.parts)
                case Known() if is_standard(type(one.value)):
                    found |= _known_items(one.value) | self._assigned(one, "[]")
                case _:
                    found.add(one)
        return self._note(frozenset(found))

    def _note(self, value: Value) -> Value:
        """Notes the functions in a value: those that are never called directly are followed at the end."""
        for one in value:
            if isinstance(one, Bound) or (isinstance(one, Known) and isinstance(one.value, FunctionType)):
                self._named.setdefault(one)
        return value

    # --- calls ----------------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call, frame: Frame) -> Value:
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return self._super(node, frame)
        called = self._value(node.func, frame)
        arguments = self._arguments(node, frame)
        if _is_getattr(node) and arguments.parts[:1]:
            called_name: Any = node.args[1]
            return UNKNOWN.union(*(self._attribute(one, called_name.value) for one in arguments.parts[0]))
        self._site = (node, frame)
        self._count_methods(arguments)
        results: list[Value | None] = []
        for one in called:
            self._site = (node, frame)
            results.append(self._follow(one, arguments))
        if results and None not in results:
            return _union(results)
        return _union(results) | self._unresolved(node, arguments, frame)

    def _count_methods(self, arguments: Arguments) -> None:
        """A method of a handle that is passed on, as in `retry(ctx.apply, child)`, may be called with anything."""
        for one in flat(arguments.all()):
            if isinstance(one, Method) and (one.name in _WRITES or one.name == "record"):
                self._add_calls(one.name, UNKNOWN, "")

    def _unresolved(self, node: ast.Call, arguments: Arguments, frame: Frame) -> Value:
        """The result of a call that cannot be followed: it is reported if it can send requests."""
        if isinstance(node.func, ast.Attribute):
            receiver = self._value(node.func.value, frame)
            is_container = isinstance(node.func.value, ast.Name | ast.Attribute)
            if is_container and node.func.attr in _STORES and _is_plain(receiver):
                self._assign(node.func.value, arguments.all(), frame)
                return receiver
            if contains_handle(arguments.all()):
                self._report(node, frame, f"{ast.unparse(node.func)}()")
            return frozenset(one for one in receiver if not isinstance(one, Known))
        if contains_handle(arguments.all()):
            self._report(node, frame, f"{ast.unparse(node.func)}()")
        return UNKNOWN

    def _report(self, node: ast.expr, frame: Frame, what: str) -> None:
        self.unfollowed.add(Unfollowed(frame.function.__code__.co_filename, node.lineno, what))

    def _super(self, node: ast.Call, frame: Frame) -> Value:
        home, function = frame.find("__class__"), frame.function
        name = function.__code__.co_varnames[0] if function.__code__.co_argcount else ""
        if node.args:
            home, receivers = self._value(node.args[0], frame), self._value(node.args[-1], frame)
        else:
            receivers = frame.find(name)
        classes = [one.value for one in home if isinstance(one, Known) and isinstance(one.value, type)]
        return frozenset(Super(class_, one) for class_ in classes for one in receivers)

    def _arguments(self, node: ast.Call, frame: Frame) -> Arguments:
        parts: list[Value] = []
        rest: Value = UNKNOWN
        for one in node.args:
            value = self._value(one, frame)
            packed = [it for it in value if isinstance(it, Packed)]
            if not isinstance(one, ast.Starred):
                parts.append(value)
            elif len(packed) == len(value) == 1:
                parts += packed[0].parts
            else:
                rest |= frozenset(flat(value))
        named: list[tuple[str, Value]] = []
        for keyword in node.keywords:
            value = self._value(keyword.value, frame)
            if keyword.arg is None:
                rest |= frozenset(flat(value))
            else:
                named.append((keyword.arg, value))
        return Arguments(tuple(parts), tuple(named), rest)


def _known_items(container: Any) -> Value:
    """What a container of a module or an object holds."""
    values: Iterable[Any] = ()
    if isinstance(container, dict):
        values = list(container.values())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    elif isinstance(container, list | tuple | set | frozenset):
        values = list(container)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return UNKNOWN.union(*(known(one) for one in list(values)[:_MAX_ITEMS]))


def _union(values: Iterable[Value | None]) -> Value:
    return UNKNOWN.union(*(one for one in values if one is not None))


def _part(value: Value, place: int, count: int) -> Value:
    """One member of a value that is unpacked; all of it where its members are not known one by one."""
    found: set[Element] = set()
    for one in value:
        if isinstance(one, Packed):
            found |= one.parts[place] if len(one.parts) == count else UNKNOWN.union(*one.parts)
        else:
            found.add(one)
    return frozenset(found)


def _attribute_key(owner: Element) -> Any:
    return owner.kind if isinstance(owner, Of) else owner


def _is_plain(receiver: Value) -> bool:
    """Whether a value may be a container: nothing, or what was put into it before."""
    return not any(isinstance(one, Known | Handle) for one in receiver)


def _is_getattr(node: ast.Call) -> bool:
    is_named = isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) > 1
    return is_named and isinstance(node.args[1], ast.Constant) and isinstance(node.args[1].value, str)


def _is_abstract(function: FunctionType, home: Any) -> bool:
    return bool(getattr(function, "__isabstractmethod__", False) or getattr(home, "_is_protocol", False))


def _subclasses(class_: type[Any]) -> Iterator[type[Any]]:
    for one in type.__subclasses__(class_):
        yield one
        yield from _subclasses(one)


def _after(given: Super) -> tuple[type[Any], ...]:
    """The classes that `super()` searches."""
    class_ = _receiver_class(given.receiver) or given.after
    order = class_.__mro__ if given.after in class_.__mro__ else given.after.__mro__
    return order[order.index(given.after) + 1 :]


def _receiver_class(receiver: Element | None) -> type[Any] | None:
    """The class of an object, or the class itself in a class method."""
    match receiver:
        case Of(kind=type() as class_):
            return class_
        case Known(value=type() as class_):
            return class_
        case Known(value=value):
            return _class_of(value)
        case _:
            return None


def _class_of(value: object) -> type[Any]:
    return type(value)


def _static(class_: type[Any], name: str) -> Any:
    return next((vars(one)[name] for one in class_.__mro__ if name in vars(one)), None)


def _code_owner(function: Any) -> Any:
    """The function whose module counts as the user's."""
    if isinstance(function, partial):
        return _code_owner(function.func)  # pyright: ignore[reportUnknownMemberType] - partial of any type
    found = inspect.unwrap(getattr(function, "__func__", function))
    return found if isinstance(found, FunctionType) else _class_of(found)


def _unread(function: Callable[..., Any]) -> Unfollowed:
    owner = _code_owner(function)
    file = owner.__code__.co_filename if isinstance(owner, FunctionType) else root_module(owner)
    return Unfollowed(file, 0, f"{getattr(owner, '__qualname__', owner)}, whose source is not available")


def _positional_count(function: Callable[..., Any]) -> int:
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 2
    return sum(
        one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) and one.default is one.empty for one in found
    )
