"""The verbs that change something: create, update, patch, apply, delete, scale."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypedDict, TypeVar, Unpack, cast, overload

from levelset.client import requests
from levelset.client.asking import Asking, Write, kind_and_name
from levelset.client.calls import Answer
from levelset.client.drafting import Draft, delete_options, draft_of, is_gone, read_part, write_of
from levelset.client.forms import APPLY, Form
from levelset.client.items import Items
from levelset.client.kinds import Kind, OnlyMetadata, View, view_of
from levelset.client.paging import KeptPage, read_page
from levelset.client.patches import MergePatch, Patch
from levelset.client.requests import Fields, Labels, Propagation, Served, Target, Validation
from levelset.client.scaling import ObjectScale
from levelset.errors import ConfigError, NotFound
from levelset.objects import codec
from levelset.objects.identity import Ref
from levelset.objects.resource import Object, PartialObjectMetadata
from levelset.objects.unstructured import Unstructured

__all__ = ["ApplyOptions", "DeleteOptions", "DraftOptions", "WriteOptions", "Writing"]

K = TypeVar("K")
O = TypeVar("O", bound=Object | Unstructured)  # noqa: E741  # the letter the type checker shows

_TEXT: Final = (str, type(None))
_reader: Final = cast("Callable[[Any], Callable[[bytes], Any]]", codec.reader)


class WriteOptions(TypedDict, total=False):
    """Who writes, whether it is for show, and what the server does with fields that it does not know."""

    manager: str | None
    dry_run: bool
    validation: Validation | None


_OPTIONS: Final = frozenset(WriteOptions.__annotations__)


class DraftOptions(WriteOptions, total=False):
    """Where a whole object goes: a namespace, or a part of the object `on`."""

    namespace: str | None
    on: Ref[Any] | None
    subresource: str | None


class ApplyOptions(TypedDict, total=False):
    """Where an apply goes, who applies, and whether it takes over what others own."""

    namespace: str | None
    subresource: str | None
    manager: str | None
    force: bool
    dry_run: bool


class DeleteOptions(TypedDict, total=False):
    """How to delete, and which object only."""

    propagation: Propagation | None
    grace: int | None
    uid: str | None
    resource_version: str | None
    missing_ok: bool
    dry_run: bool


class Writing(Asking):
    """The verbs of a client that change something.

    All of them take `dry_run` (the server does everything but store), `manager` (who owns the fields that are written)
    and, where there are fields to check, `validation`; the client's own settings stand in where they are left out.
    """

    @overload
    async def create(self, obj: O, /, **options: Unpack[DraftOptions]) -> O: ...
    @overload
    async def create(self, obj: Mapping[str, Any], /, **options: Unpack[DraftOptions]) -> Unstructured: ...
    async def create(
        self,
        obj: Any,
        /,
        *,
        namespace: str | None = None,
        on: Ref[Any] | None = None,
        subresource: str | None = None,
        **options: Any,
    ) -> Any:
        """The object as the server made it; AlreadyExists if its name is taken.

        With `on` and `subresource` it is posted to a part of another object, such as an eviction to a Pod.
        """
        draft = draft_of(obj)
        if on is not None or subresource is not None:
            target = await self._part(draft, on, subresource)
            whole = target
        else:
            target = self._drafted(await self._served(draft.view), draft, namespace)
            whole = Target(target.served, target.namespace)
        chosen = self._options(options)
        words = target.said("create")
        call = requests.create(whole, draft.body(), words=words, timeout=self._settings.timeout, **chosen)
        return self._written(await self._sender.send(call), draft.view, target, is_dry=chosen["dry_run"])

    @overload
    async def update(self, obj: O, /, **options: Unpack[DraftOptions]) -> O: ...
    @overload
    async def update(self, obj: Mapping[str, Any], /, **options: Unpack[DraftOptions]) -> Unstructured: ...
    async def update(
        self,
        obj: Any,
        /,
        *,
        namespace: str | None = None,
        on: Ref[Any] | None = None,
        subresource: str | None = None,
        **options: Any,
    ) -> Any:
        """The object after it was replaced as a whole; Conflict if somebody wrote since it was read.

        An object without a version replaces whatever is there, where the kind allows that. One that has a version but
        was not read from a server is refused (BadObject), since fields that its class does not know would be lost.
        """
        draft = draft_of(obj)
        draft.check_whole()
        if on is not None and subresource is not None:
            target = await self._part(draft, on, subresource)
        else:
            target = self._drafted(await self._served(draft.view), draft, namespace, subresource)
        chosen = self._options(options)
        call = requests.update(target, draft.body(), timeout=self._settings.timeout, **chosen)
        return self._written(await self._sender.send(call), draft.view, target, is_dry=chosen["dry_run"])

    async def update_status(self, obj: O, /, *, manager: str | None = None, dry_run: bool = False) -> O:
        """The object after its status was replaced; the rest of it is not looked at."""
        return await self.update(obj, subresource="status", manager=manager, dry_run=dry_run)

    @overload
    async def patch(
        self,
        what: Ref[K],
        patch: Patch,
        /,
        *,
        subresource: str | None = None,
        only_metadata: Literal[False] = False,
        **options: Unpack[WriteOptions],
    ) -> K: ...
    @overload
    async def patch(
        self,
        what: Ref[Any],
        patch: Patch,
        /,
        *,
        subresource: str | None = None,
        only_metadata: Literal[True],
        **options: Unpack[WriteOptions],
    ) -> PartialObjectMetadata: ...
    async def patch(
        self,
        what: Ref[Any],
        patch: Patch,
        /,
        *,
        subresource: str | None = None,
        only_metadata: bool = False,
        **options: Any,
    ) -> Any:
        """The object after the patch, or only its metadata; NotFound if there is none."""
        if not isinstance(patch, Patch):  # a bare tree, most often
            raise ConfigError(f"patch {what}: say how a {type(patch).__name__} is meant, such as MergePatch(...)")
        class_ = what.class_
        if class_ is not None and not options and not only_metadata:  # as a controller writes
            key = class_, what.namespace, subresource, patch.content_type, None
            form = self._forms.get(key) or self._form(view_of(class_), key)
            if form is not None:
                return self._formed(form, what.name, await self._sender.send(form.call(what.name, patch.body())))
        kind: Any = class_ or what.gvk
        view: View[Any] = view_of(OnlyMetadata(kind) if only_metadata else kind)
        served = self._served_nowait(view) or await self._served(view)
        target = self._target(served, what.name, what.namespace, subresource)
        chosen = self._options(options)
        call = requests.patch(
            target,
            patch.body(),
            patch.content_type,
            is_metadata=view.is_metadata,
            timeout=self._settings.timeout,
            **chosen,
        )
        return self._written(await self._sender.send(call), view, target, is_dry=chosen["dry_run"])

    @overload
    async def apply(self, obj: O, /, **options: Unpack[ApplyOptions]) -> O: ...
    @overload
    async def apply(self, obj: Mapping[str, Any], /, **options: Unpack[ApplyOptions]) -> Unstructured: ...
    async def apply(
        self,
        obj: Any,
        /,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        force: bool = False,
        **options: Any,
    ) -> Any:
        """The object after a server-side apply: made if it is not there; what the manager no longer says is dropped.

        ApplyConflict names the fields that other managers own; with `force` they are taken over.
        """
        draft = draft_of(obj)
        return await self.apply_draft(
            draft, draft.applied_body(), namespace=namespace, subresource=subresource, force=force, **options
        )

    async def apply_draft(
        self,
        draft: Draft,
        body: bytes,
        /,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        force: bool = False,
        **options: Any,
    ) -> Any:
        """As `apply`, for who has the draft and its `applied_body` already."""
        view, place = draft.view, draft.namespace
        is_plain = not options and (namespace is None or namespace == place)
        if is_plain and isinstance(place, _TEXT) and force.__class__ is bool:  # nonsense has no form
            key = view.class_, place, subresource, APPLY, force
            form = self._forms.get(key) or self._form(view, key)
            if form is not None:
                return self._formed(form, draft.name, await self._sender.send(form.call(draft.name, body)))
        served = self._served_nowait(view) or await self._served(view)
        target = self._drafted(served, draft, namespace, subresource)
        chosen = self._options(options)
        call = requests.patch(target, body, APPLY, force=force, verb="apply", timeout=self._settings.timeout, **chosen)
        return self._written(await self._sender.send(call), view, target, is_dry=chosen["dry_run"])

    @overload
    async def delete(self, what: Ref[K], /, **options: Unpack[DeleteOptions]) -> K | None: ...
    @overload
    async def delete(
        self, what: Kind[K], name: str, /, *, namespace: str | None = None, **options: Unpack[DeleteOptions]
    ) -> K | None: ...
    async def delete(
        self,
        what: Ref[Any] | Kind[Any],
        name: str | None = None,
        /,
        *,
        namespace: str | None = None,
        missing_ok: bool = False,
        dry_run: bool = False,
        **options: Any,
    ) -> Any:
        """None if the object is gone, or the object if finalizers or its grace period still hold it.

        NotFound if there is none (unless that is fine), Conflict if it is not the one that `uid` or
        `resource_version` says.
        """
        view, name, namespace = kind_and_name(what, name, namespace)
        target = await self._one(view, name, namespace)
        dry_run = dry_run or self._settings.dry_run
        body = delete_options(dry_run=dry_run, **options)
        call = requests.delete(target, body, is_metadata=view.is_metadata, timeout=self._settings.timeout)
        try:
            answer = await self._sender.send(call)
        except NotFound:
            if missing_ok:
                return None
            raise
        if not dry_run:
            self._observe(write_of(view.gvk, name, target.namespace, answer.body, is_delete=True))
        return None if is_gone(answer.body) else view.read(answer.body)

    async def delete_collection(
        self,
        kind: Kind[K],
        /,
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        propagation: Propagation | None = None,
        grace: int | None = None,
        dry_run: bool = False,
    ) -> Items[K]:
        """Deletes all objects of a kind in one namespace that the selectors select, and gives what it deleted."""
        view = view_of(kind)
        target = await self._many(view, namespace)
        if target.served.namespaced and target.namespace is None:
            raise ConfigError(f"delete all {view.gvk.kind}: name the namespace; all of them at once is not offered")
        dry_run = dry_run or self._settings.dry_run
        body = delete_options(propagation=propagation, grace=grace, dry_run=dry_run)
        call = requests.delete_collection(target, body, labels=labels, fields=fields, timeout=self._settings.timeout)
        answer = await self._sender.send(call)
        page = _deleted_page(answer.body, view)
        if not dry_run:
            version = page.resource_version or None
            self._observe(Write(view.gvk, None, target.namespace, version, is_gone=True))
        return Items(page, view)

    async def get_scale(self, ref: Ref[Any], /) -> ObjectScale:
        """How many replicas an object wants and has; NotFound if its kind has no scale."""
        target = await self._one(view_of(ref.class_ or ref.gvk), ref.name, ref.namespace, "scale")
        answer = await self._sender.send(requests.get(target, timeout=self._settings.timeout))
        return codec.decode(ObjectScale, answer.body)

    async def scale(
        self,
        ref: Ref[Any],
        /,
        replicas: int,
        *,
        manager: str | None = None,
        dry_run: bool = False,
    ) -> ObjectScale:
        """The scale of an object after its number of replicas was set."""
        view: View[Any] = view_of(ref.class_ or ref.gvk)
        target = await self._one(view, ref.name, ref.namespace, "scale")
        patch = MergePatch({"spec": {"replicas": replicas}})
        chosen = self._options({"manager": manager, "dry_run": dry_run})
        call = requests.patch(target, patch.body(), patch.content_type, timeout=self._settings.timeout, **chosen)
        made: ObjectScale = self._written(
            await self._sender.send(call), view_of(ObjectScale), target, is_dry=chosen["dry_run"]
        )
        return made

    def _options(self, said: Mapping[str, Any]) -> dict[str, Any]:
        settings = self._settings
        if not said:  # as a controller writes
            return {"manager": settings.manager, "dry_run": settings.dry_run, "validation": settings.validation}
        unknown = sorted(said.keys() - _OPTIONS)
        if unknown:
            # Passed over, a `dryrun=True` would write.
            raise TypeError(f"there is no option {', '.join(unknown)}; there is: {', '.join(sorted(_OPTIONS))}")
        return {
            "manager": said.get("manager") or settings.manager,
            "dry_run": bool(said.get("dry_run")) or settings.dry_run,
            "validation": said.get("validation") or settings.validation,
        }

    def _drafted(self, served: Served, draft: Draft, namespace: str | None, subresource: str | None = None) -> Target:
        if namespace is not None and draft.namespace is not None and namespace != draft.namespace:
            raise ConfigError(f"{draft.view.gvk.kind} {draft.name} is in namespace {draft.namespace}, not {namespace}")
        return self._target(served, draft.name, draft.namespace or namespace, subresource)

    async def _part(self, draft: Draft, on: Ref[Any] | None, subresource: str | None) -> Target:
        if on is None or subresource is None:
            raise ConfigError(
                f"{draft.view.gvk.kind}: `on` says of which object, `subresource` of which part; give both"
            )
        return await self._one(view_of(on.class_ or on.gvk), on.name, on.namespace, subresource)

    def _formed(self, form: Form, name: str, answer: Answer) -> Any:
        """As `_written`, for a write by a form."""
        body = answer.body
        if not form.is_dry:
            self._observe(write_of(form.gvk, name, form.namespace, body))
        return _reader(form.class_)(body)

    def _written(self, answer: Answer, view: View[Any], target: Target, *, is_dry: bool) -> Any:
        """The object in the answer to a write, once those who observe writes have heard of it."""
        body = answer.body
        if not is_dry:
            self._observe(write_of(target.served.gvk, target.name, target.namespace, body))
        return view.read(body) if target.subresource is None else read_part(view, body, target.subresource)


def _deleted_page(body: bytes, view: View[Any]) -> KeptPage:
    if b'"Status"' in body[:200] and b'"items"' not in body:
        return KeptPage([], "")
    return read_page(body, view.gvk)
