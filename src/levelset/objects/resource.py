"""Typed resources: `class Website(Resource[WebsiteSpec, WebsiteStatus], api="example.dev/v1")`.

A class declares a kind. Its keywords say how the kind is named and served, its docstring is the description, and its
objects are frozen values: a change is a new object. A decoded object carries the bytes it was decoded from (its
origin), so that encoding it retains the fields that the class does not know; see docs/decisions/0003.
"""

import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, Generic, Literal, Self, TypeVar, dataclass_transform, get_args, get_origin

import msgspec

from levelset.errors import ConfigError
from levelset.objects.kind_definition import Column, Definition, Scale, Scope, define
from levelset.objects.meta import ListMeta, ObjectMeta, StatusDetails
from levelset.objects.model import Model, ModelType, field, replace
from levelset.objects.ref import Ref, ref_to

__all__ = [
    "ApiStatus",
    "KindType",
    "Object",
    "PartialObjectMetadata",
    "Resource",
    "origin_of",
    "set_origin",
    "with_origin",
]

SpecT = TypeVar("SpecT")
StatusT = TypeVar("StatusT")
O = TypeVar("O", bound="Object")  # noqa: E741  # the letter the type checker shows


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class KindType(ModelType):
    """Reads the class keywords of a kind and pins its `apiVersion` and `kind`."""

    def __new__(  # noqa: D102
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        api: str | None = None,
        kind: str | None = None,
        plural: str | None = None,
        singular: str | None = None,
        scope: Scope = "Namespaced",
        short_names: Iterable[str] = (),
        categories: Iterable[str] = (),
        columns: Iterable[Column] = (),
        status: bool | None = None,
        scale: Scale | None = None,
        selectable: Iterable[str] = (),
        served: bool = True,
        stored: bool = False,
        deprecated: bool | str = False,
        **options: Any,
    ) -> "ModelType":
        _check_parts(name, namespace, api)
        if api is None:
            return super().__new__(mcls, name, bases, namespace, **options)
        definition = define(
            name,
            api=api,
            kind=kind,
            plural=plural,
            singular=singular,
            scope=scope,
            short_names=short_names,
            categories=categories,
            columns=columns,
            status=_has_status(namespace) if status is None else status,
            scale=scale,
            description=_clean(namespace.get("__doc__") or ""),
            selectable=selectable,
            served=served,
            stored=stored,
            deprecated=deprecated,
        )
        _pin(namespace, definition)
        made = super().__new__(mcls, name, bases, namespace, **options)
        setattr(made, "__definition__", definition)  # noqa: B010  # the metaclass knows no attributes of its classes
        return made


def _check_parts(class_name: str, namespace: Mapping[str, Any], api: str | None) -> None:
    """Raises ConfigError for a `Resource[Spec, Status]` without `api=`, or whose spec or status is no model."""
    for base in namespace.get("__orig_bases__", ()):
        parts = get_args(base)
        if getattr(get_origin(base), "__name__", "") != "Resource" or len(parts) != 2:
            continue
        if any(isinstance(part, TypeVar) for part in parts):
            continue  # a generic base of several kinds
        spec, status = (getattr(part, "__name__", str(part)) for part in parts)
        shown = f"Resource[{spec}, {'None' if parts[1] is type(None) else status}]"
        if api is None:
            raise ConfigError(
                f'{class_name} does not declare a kind: write class {class_name}({shown}, api="example.dev/v1")'
            )
        for what, part in (("Spec", parts[0]), ("Status", parts[1])):
            if _is_no_model(part):
                raise ConfigError(
                    f"class {class_name}({shown}): {part.__name__} is no {what}: write class {part.__name__}({what})"
                )


def _is_no_model(part: Any) -> bool:
    """Whether it is a class of the user that is no model; None, `dict[str, Any]` and Any are types without a class."""
    if not isinstance(part, type) or get_origin(part) is not None or part.__module__ in ("builtins", "typing"):
        return False
    return not issubclass(part, Model)


def _clean(text: str) -> str:
    """A docstring without indentation, as `inspect.cleandoc` returns it; `inspect` is slow to import."""
    first, *rest = text.expandtabs().split("\n")
    return "\n".join([first.lstrip(), *textwrap.dedent("\n".join(rest)).split("\n")]).strip("\n")


def _has_status(namespace: Mapping[str, Any]) -> bool:
    """Whether the class is a Resource with a status as its second type argument."""
    for base in namespace.get("__orig_bases__", ()):
        arguments = get_args(base)
        if getattr(get_origin(base), "__name__", "") == "Resource" and len(arguments) == 2:
            return arguments[1] is not type(None)
    return False


def _pin(namespace: dict[str, Any], definition: Definition) -> None:
    """Narrows `api_version` and `kind` to the only values that this class may have.

    The defaults come from factories because msgspec omits plain defaults, and these two are always encoded.
    """
    api_version, kind = definition.gvk.api_version, definition.gvk.kind
    pinned: dict[str, Any] = {"api_version": Literal[api_version], "kind": Literal[kind]}
    annotate = namespace.get("__annotate_func__")
    if annotate is None:
        namespace["__annotations__"] = {**pinned, **namespace.get("__annotations__", {})}
    else:  # Python 3.14 and newer store annotations as a function
        namespace["__annotate_func__"] = _annotating(annotate, pinned)
    # `str.__str__` of the value returns it, faster than a Python function would.
    namespace["api_version"] = field(default_factory=api_version.__str__)
    namespace["kind"] = field(default_factory=kind.__str__)


def _annotating(annotate: Callable[[Any], dict[str, Any]], more: dict[str, Any]) -> Callable[[Any], dict[str, Any]]:
    return lambda how: {**more, **annotate(how)}


class _Origin:
    """The slot of a decoded object's origin: no field of the struct, so that no JSON can set it.

    A slot and not a `__dict__`, which takes 200 bytes more for each object, and which only structs may have that the
    garbage collector tracks.
    """

    __slots__ = ("_origin",)

    _origin: bytes


set_origin: Final[Callable[[Any, bytes], None]] = _Origin.__dict__["_origin"].__set__
"""Stores the origin of an object that is not shared yet; for hot paths (see `with_origin`)."""


class Object(_Origin, Model, metaclass=KindType):
    """An object of any kind: metadata, and the fields that the class adds.

    Kinds with a spec and a status are `Resource`s; this is the base of those without, such as ConfigMap:
    `class ConfigMap(Object, api="v1"): data: dict[str, str] = {}`.
    """

    __definition__: ClassVar[Definition]

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)

    @property
    def name(self) -> str:
        """The name in the metadata."""
        return self.metadata.name

    @property
    def namespace(self) -> str | None:
        """The namespace in the metadata; None for a cluster-scoped object, or if it is not set yet."""
        return self.metadata.namespace

    @property
    def ref(self) -> Ref[Self]:
        """The reference to this object."""
        class_, meta = type(self), self.metadata
        definition = getattr(class_, "__definition__", None)
        if definition is None:
            return Ref(class_, meta.name, meta.namespace)  # raises ConfigError
        return ref_to(definition.gvk, class_, meta.name, meta.namespace)

    def with_metadata(self, **changes: Any) -> Self:
        """A copy with these attributes of the metadata changed."""
        return self.__replace__(metadata=replace(self.metadata, **changes))

    def __replace__(self, **changes: Any) -> Self:
        made = msgspec.structs.replace(self, **changes)
        return with_origin(made, origin_of(self))

    def __copy__(self) -> Self:
        return self.__replace__()

    def __reduce__(self) -> tuple[Any, ...]:
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return _rebuild, (type(self), values, origin_of(self))


class Resource(Object, Generic[SpecT, StatusT], kw_only=True):
    """An object with a spec, the desired state, and a status, the observed state.

    ```python
    class WebsiteSpec(Spec):
        image: str
        replicas: Annotated[int, Meta(ge=1)] = 1


    class WebsiteStatus(Status):
        ready: int = 0


    class Website(Resource[WebsiteSpec, WebsiteStatus], api="example.dev/v1", short_names=["ws"]):
        \"\"\"A site served from a container image.\"\"\"
    ```

    A kind without a status is a `Resource[WebsiteSpec, None]`.
    """

    spec: SpecT
    status: StatusT | None = None

    @classmethod
    def new(
        cls,
        name: str,
        spec: SpecT,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> Self:
        """A new object, to be created on an API server."""
        metadata = ObjectMeta(
            name=name, namespace=namespace, labels=dict(labels or {}), annotations=dict(annotations or {})
        )
        return cls(metadata=metadata, spec=spec)

    def with_spec(self, spec: SpecT | None = None, /, **changes: Any) -> Self:
        """A copy with another spec, which type checkers check, or with these attributes of the spec changed.

        `site.with_spec(WebsiteSpec(image="blog:2"))` is checked by them, `site.with_spec(image="blog:2")` at run time.
        """
        base = self.spec if spec is None else spec
        return replace(self, spec=_changed(self, "spec", base, changes) if changes else base)

    def with_status(self, status: StatusT | None = None, /, **changes: Any) -> Self:
        """A copy with another status, which type checkers check, or with these attributes of the status changed.

        As with `with_spec`, attributes by keyword are checked at run time only.
        """
        base = self.status if status is None else status
        return replace(self, status=_changed(self, "status", base, changes) if changes else base)


class PartialObjectMetadata(Object, api="meta.k8s.io/v1"):
    """The metadata of an object of any kind, without its other fields."""


class ApiStatus(Object, api="v1", kind="Status", plural="status"):
    """The `Status` response of an API server: an error, or a success without an object."""

    metadata: ListMeta = field(default_factory=ListMeta)  # type: ignore[assignment]  # a Status has the metadata of a list
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0


def origin_of(obj: Object) -> bytes | None:
    """The JSON that an object was decoded from, or None for one that was not decoded."""
    found: bytes | None = getattr(obj, "_origin", None)
    return found


def with_origin(obj: O, origin: bytes | None) -> O:
    """Stores the origin of an object and returns the object; for codecs, before the object is shared."""
    if origin is not None:
        set_origin(obj, origin)
    return obj


def _rebuild(class_: type[O], values: dict[str, Any], origin: bytes | None) -> O:
    return with_origin(class_(**values), origin)


def _changed(obj: Object, part: str, value: Any, changes: Mapping[str, Any]) -> Any:
    if not isinstance(value, msgspec.Struct):
        raise ConfigError(f"{obj.ref} has no typed {part} to change; create one and replace it as a whole")
    return replace(value, **changes)
