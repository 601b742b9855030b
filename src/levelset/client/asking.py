"""What all verbs of a client share: where a kind is served, in which namespace, with which defaults."""

import logging
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

import msgspec

from levelset.client.forms import Form, FormKey, form_of
from levelset.client.kinds import Kind, View, view_of
from levelset.client.requests import Served, Target, Validation
from levelset.client.sending import Sender
from levelset.client.served import ServedResource, served_by
from levelset.errors import BadName, ConfigError
from levelset.objects.identity import GroupVersionKind, Ref
from levelset.objects.kept import Head

__all__ = ["Asking", "Observer", "Resolves", "Settings", "Write", "kind_and_name"]

K = TypeVar("K")

_log: Final = logging.getLogger("levelset.client")
_MOST_FORMS: Final = 4096
_WHOLE: Final = frozenset({None, "status"})
"""The parts of an object that are answered with the whole of it."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a client does unless a call says otherwise."""

    namespace: str = "default"
    manager: str = "levelset"
    timeout: float = 30.0
    dry_run: bool = False
    validation: Validation | None = None
    only_namespace: str | None = None
    """The one namespace that this client may name; None for all."""

    def __post_init__(self) -> None:
        seconds: object = self.timeout
        if not isinstance(seconds, int | float) or not seconds > 0:
            raise ConfigError(f"timeout={seconds!r}: every call has one; give seconds, more than 0")


class Write(msgspec.Struct, frozen=True, gc=False):
    """A write that a server has accepted: what was written, and the version that it has now.

    `is_gone` says that the object is no more; what is only marked for deletion is not gone. Without a name it is
    about many objects of a kind, and without a version nobody knows which one they have.
    """

    gvk: GroupVersionKind
    name: str | None
    namespace: str | None
    resource_version: str | None
    uid: str | None = None
    is_gone: bool = False
    head: Head | None = None
    """The metadata of the object as it is now, where the answer has them."""


Observer = Callable[[Write], None]
"""Is told of each write, before the verb returns; what it raises is logged, since the write has happened."""


class Resolves(Protocol):
    """What knows the kinds of a server."""

    async def resource(self, gvk: GroupVersionKind, /) -> ServedResource:
        """How a kind is served; UnknownKind if it is not."""
        ...


class Asking:
    """The part of a client below its verbs."""

    def __init__(self, sender: Sender, settings: Settings, mapper: Resolves, observers: list[Observer]) -> None:
        self._sender = sender
        self._settings = settings
        self._mapper = mapper
        self._observers = observers
        self._forms: dict[FormKey, Form] = {}

    async def resource(self, kind: Kind[Any]) -> ServedResource:
        """How a kind is served: a class says it itself, for a bare kind the server is asked once."""
        view = view_of(kind)
        if view.definition is None:
            return await self._mapper.resource(view.gvk)
        return served_by(view.definition)

    def observe_writes(self, observer: Observer) -> Callable[[], None]:
        """Has `observer` called after each write that succeeds; what is returned ends that."""
        self._observers.append(observer)

        def detach() -> None:
            if observer in self._observers:
                self._observers.remove(observer)

        return detach

    @property
    def is_closed(self) -> bool:
        """Whether the connections were closed; a client that is, is of no use any more."""
        return self._sender.is_closed

    @property
    def only_namespace(self) -> str | None:
        """The one namespace to which this client is confined; None if it is not."""
        return self._settings.only_namespace

    @property
    def namespace(self) -> str:
        """Where a namespaced object is looked for, and made, if nobody says where."""
        return self._settings.only_namespace or self._settings.namespace

    @property
    def mapper(self) -> Resolves:
        """What knows the kinds of the server."""
        return self._mapper

    def _served_nowait(self, view: View[Any]) -> Served | None:
        """What `_served` gives, if that has nothing to wait for."""
        return view.definition

    async def _served(self, view: View[Any]) -> Served:
        return await self._mapper.resource(view.gvk) if view.definition is None else view.definition

    async def _one(self, view: View[Any], name: str, namespace: str | None, subresource: str | None = None) -> Target:
        """One object, in the client's namespace unless another is named."""
        return self._target(await self._served(view), name, namespace, subresource)

    def _target(self, served: Served, name: str, namespace: str | None, subresource: str | None = None) -> Target:
        """The same of a kind that is known."""
        return Target(served, self._place(served, namespace or self.namespace), name, subresource)

    def _form(self, view: View[Any], key: FormKey) -> Form | None:
        """The form for writes of a class with this client's settings, kept for the next one; None if they need more."""
        served, settings = self._served_nowait(view), self._settings
        if served is None or view.is_metadata or key[2] not in _WHOLE:
            return None
        made = form_of(
            Target(served, self._place(served, key[1] or self.namespace)),
            key,
            timeout=settings.timeout,
            manager=settings.manager,
            validation=settings.validation,
            dry_run=settings.dry_run,
        )
        if len(self._forms) >= _MOST_FORMS:
            self._forms.clear()
        self._forms[key] = made
        return made

    async def _many(self, view: View[Any], namespace: str | None) -> Target:
        """All objects of a kind, in all namespaces unless one is named."""
        served = await self._served(view)
        return Target(served, self._place(served, namespace or self._settings.only_namespace))

    def _place(self, served: Served, namespace: str | None) -> str | None:
        if not served.namespaced:
            return None
        only = self._settings.only_namespace
        if only is not None and namespace != only:
            raise ConfigError(f"this client is for namespace {only} only, not for {served.gvk.kind} in {namespace}")
        return namespace

    def _observe(self, write: Write | None) -> None:
        """Has those who observe writes hear of one; of None, an answer that does not say what was written, nobody."""
        if write is None:
            return
        for observer in tuple(self._observers):
            try:
                observer(write)
            except Exception:  # noqa: BLE001 -- the write has happened, and others have to hear of it
                _log.exception("an observer of writes failed", extra={"object": f"{write.gvk} {write.name or ''}"})


def kind_and_name(
    what: "Ref[Any] | Kind[Any]", name: str | None, namespace: str | None
) -> tuple[View[Any], str, str | None]:
    """The view, name and namespace that `get(ref)` or `get(Kind, name, namespace=...)` mean."""
    if isinstance(what, Ref):
        if name is not None and name != what.name:
            raise ConfigError(f"{what} names its object already; leave {name!r} out")
        if namespace is not None and what.namespace is not None and namespace != what.namespace:
            raise ConfigError(f"{what} names its namespace already; leave {namespace!r} out")
        return view_of(what.class_ or what.gvk), what.name, what.namespace or namespace
    if name is None:
        raise ConfigError(f"which {view_of(what).gvk.kind}? Give its name, or a Ref")
    view: View[Any] = view_of(what)
    if not isinstance(name, str) or not name:
        raise BadName(f"{name!r} is no name of a {view.gvk.kind}; it is a text, and not empty", field="name")
    return view, name, namespace
