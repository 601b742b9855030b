"""Admission of writes: runs mutating plugins before validation, and validating plugins after it.

Only used for writes that the admission chain handles. The order is that of Kubernetes: the object is decoded and its
field owners are computed; mutating plugins are called one after the other; schema and strategy validate the result;
validating policies, and then validating webhooks, are called concurrently.
"""

import asyncio
import base64
import binascii
from functools import cached_property, partial
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from levelset.apiserver.admission.chain import (
    AdmissionContext,
    AdmissionPlugin,
    AdmissionPolicy,
    AdmissionRequest,
    Operation,
    SubresourceView,
    equivalent_resources,
    review_request,
)
from levelset.apiserver.authn.users import ADMIN
from levelset.apiserver.registry import conversion, conversion_webhook, object_decoder, strategy
from levelset.apiserver.registry import metadata as meta
from levelset.apiserver.registry.metadata import new_uid
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.request_options import DeleteOptions, WriteOptions
from levelset.apiserver.wire.step_limits import run_limited, run_off_loop
from levelset.errors import ApiError, BadPatch, Cause, Malformed, PatchFailed, ServerFailed
from levelset.http import Request
from levelset.objects import decode_tree
from levelset.objects.json_tree import copy_tree, is_list, is_map
from levelset.patch import apply_operations

__all__ = ["admit_connect", "admit_create", "admit_delete", "admit_posted", "admit_update"]

_NAMESPACES: Final = "/registry/core/namespaces/"
_MATCH_SLICE: Final = 100
"""Plugins whose rules are compared with a write before other requests get their turn."""
_MAX_CONCURRENT_CALLS: Final = 64
"""Validating plugins that are called at a time for one write: each may take a connection."""
# Metadata that a plugin cannot change.
_FIXED_FIELDS: Final = (
    "creationTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "uid",
)


async def admit_create(
    state: ServerState, served: ServedResource, tree: Tree, causes: list[Cause], options: WriteOptions
) -> None:
    """Admits and validates a completed new object in place; raises the rejection of a plugin, or Invalid.

    `causes` are those of the schema.
    """
    admission = _Admission(state, served, "CREATE", tree, options)
    changed = await admission.mutate(tree, None)
    if changed is not None:
        causes = _decode_again(served, changed, options)
        tree.clear()
        tree.update(changed)
    await run_limited(
        state.expensive_work,
        lambda: strategy.validate_new(state, served, tree, causes, options),
        is_large=options.is_large and served.prefix not in state.reservers,
    )
    await admission.validate(tree, None)


async def admit_update(
    state: ServerState, served: ServedResource, old: Tree, prepared: strategy.PreparedUpdate, options: WriteOptions
) -> strategy.PreparedUpdate:
    """Admits and validates a prepared update; returns the one to store. Raises a plugin's rejection, or Invalid."""
    is_large = options.is_large and served.prefix not in state.reservers
    copying = partial(copy_tree, prepared.tree)
    tree = cast("Tree", await run_off_loop(state.expensive_work, copying) if is_large else copying())
    admission = _Admission(state, served, "UPDATE", tree, options)
    changed = await admission.mutate(tree, old)
    silent = replace(options, admission=None, validation="Ignore", duplicates=())
    # Prepared a second time, now with validation. Field owners are known: fields that a plugin changed have no owner,
    # like those that the server sets.
    source = tree if changed is None else changed
    # A copy for each attempt: preparing changes the tree, and an expensive one is prepared again in a thread.
    validated = await run_limited(
        state.expensive_work,
        lambda: strategy.prepare_update(state, served, old, cast("Tree", copy_tree(source)), silent, applied=True),
        is_large=is_large,
    )
    await admission.validate(validated.tree, old)
    return validated


async def admit_delete(state: ServerState, served: ServedResource, old: Tree, options: DeleteOptions) -> None:
    """Admits a deletion; raises the rejection of a plugin."""
    admission = _Admission(state, served, "DELETE", old, options)
    await admission.mutate(None, old)
    await admission.validate(None, old)


async def admit_posted(
    state: ServerState,
    served: ServedResource,
    tree: Tree,
    options: WriteOptions,
    request: Request,
    *,
    kind: ServedResource,
    warnings: list[str],
) -> None:
    """Admits an object that is posted to `served` and not stored, in place; raises the rejection of a plugin.

    It is an Eviction, a Binding or a TokenRequest, has its name and namespace, and is decoded again as `kind` if a
    mutating plugin has changed it: the caller then checks what is not in the schema.
    """
    chain = state.admission
    if chain is None or not chain.handles(served, options.subresource, state.catalog):
        return
    user = ADMIN if state.authenticator is None else state.authenticator.authenticate(request)
    remarks = {} if request.remarks is None else request.remarks
    context = AdmissionContext(chain, user, warnings, _POSTED, remarks)
    admission = _Admission(state, served, "CREATE", tree, replace(options, admission=context))
    changed = await admission.mutate(tree, None)
    if changed is not None:
        tree.clear()
        tree.update(changed)
        silent = replace(options, validation="Ignore", duplicates=())
        decoded = strategy.decode_new(kind, tree["metadata"].get("namespace"), tree, silent)
        if decoded.causes:
            raise status_errors.invalid(kind, "", decoded.causes)
        if decoded.version:
            tree["metadata"]["resourceVersion"] = decoded.version
    await admission.validate(tree, None)


async def admit_connect(
    state: ServerState,
    served: ServedResource,
    tree: Tree,
    context: AdmissionContext,
    *,
    target: tuple[str, str | None],
    subresource: str,
) -> Tree | None:
    """Admits a connection to the object of a name and namespace; `tree` are the options of the request.

    Returns the options that mutating plugins leave, None if they changed nothing; raises the rejection of a plugin.
    """
    options = WriteOptions(subresource=subresource, admission=replace(context, view=_OPTIONS))
    admission = _Admission(state, served, "CONNECT", tree, options, target=target)
    changed = await admission.mutate(tree, None)
    await admission.validate(tree if changed is None else changed, None)
    return changed


class _Admission:
    """The admission of one write; all its AdmissionReview requests have the same uid."""

    def __init__(
        self,
        state: ServerState,
        served: ServedResource,
        operation: Operation,
        tree: Tree,
        options: WriteOptions | DeleteOptions,
        *,
        target: tuple[str, str | None] | None = None,
    ) -> None:
        assert options.admission is not None  # checked by the caller
        self._context: AdmissionContext = options.admission
        self._state = state
        self._served = served
        name, namespace = target or _target(tree["metadata"])
        is_namespace = served.prefix == _NAMESPACES
        self._request = AdmissionRequest(
            uid=new_uid(state.random),
            operation=operation,
            served=served,
            subresource=options.subresource if isinstance(options, WriteOptions) else "",
            name=name,
            # As upstream: the namespace of a Namespace object is itself.
            namespace=name if is_namespace else namespace,
            user=self._context.user,
            options=_options_tree(operation, options),
            dry_run=options.dry_run,
        )
        self._namespace_tree: Tree | None = tree if is_namespace else None

    async def mutate(self, new: Tree | None, old: Tree | None) -> Tree | None:
        """Calls the mutating plugins; returns the changed object as a new tree, or None if it is unchanged."""
        result: Tree | None = None
        called: list[tuple[AdmissionPlugin, ServedResource]] = []
        reinvoked: list[tuple[AdmissionPlugin, ServedResource]] = []
        for one, version in await self._matching(self._context.chain.mutating):
            if called:
                await asyncio.sleep(0)  # a call that nothing matches does not suspend, and there may be thousands
            changed = await self._mutate_with(one, version, new if result is None else result, old)
            if changed is not None:
                result, reinvoked = changed, [before for before in called if before[0].reinvokes]
            called.append((one, version))
        for one, version in reinvoked:
            changed = await self._mutate_with(one, version, result, old)
            result = result if changed is None else changed
        return result

    async def _mutate_with(
        self, plugin: AdmissionPlugin, version: ServedResource, tree: Tree | None, old: Tree | None
    ) -> Tree | None:
        """Calls one mutating plugin; returns the changed object, or None if it is unchanged."""
        converted = None if tree is None else await self._convert(version, tree)
        response = await self._call(plugin, version, converted, old)
        if tree is None or converted is None or not response.get("patch"):
            return None
        if not self._served.converts_by_webhook:
            return self._accept_patch(plugin, version, tree, _patched(plugin, converted, response))
        return await conversion_webhook.run_with_conversions(
            lambda: self._accept_patch(plugin, version, tree, _patched(plugin, converted, response))
        )

    async def validate(self, new: Tree | None, old: Tree | None) -> None:
        """Calls the validating policies, then the validating webhooks; raises the first rejection."""
        for plugins in (self._context.chain.validating_policies, self._context.chain.validating):
            if plugins:
                await self._validate(await self._matching(plugins), new, old)

    async def _validate(
        self, matching: "list[tuple[AdmissionPlugin, ServedResource]]", new: Tree | None, old: Tree | None
    ) -> None:
        if len(matching) < 2:
            for one, version in matching:
                await self._validate_with(one, version, new, old)
            return
        calls: list[asyncio.Task[None]] = []
        running: set[asyncio.Task[None]] = set()
        try:
            for one, version in matching:
                if len(running) == _MAX_CONCURRENT_CALLS:
                    running = (await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED))[1]
                calls.append(asyncio.create_task(self._validate_with(one, version, new, old)))
                running.add(calls[-1])
                await asyncio.sleep(0)  # until it suspends: thousands in one turn of the event loop would hold it
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
        finally:
            for call in running:
                call.cancel()
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    async def _validate_with(
        self, plugin: AdmissionPlugin, version: ServedResource, tree: Tree | None, old: Tree | None
    ) -> None:
        converted = None if tree is None else await self._convert(version, tree)
        await self._call(plugin, version, converted, old)

    async def _matching(self, plugins: tuple[AdmissionPlugin, ...]) -> list[tuple[AdmissionPlugin, ServedResource]]:
        """Returns the plugins that match this write, each with the version in which it gets the object."""
        found: list[tuple[AdmissionPlugin, ServedResource]] = []
        for number, one in enumerate(plugins, 1):
            version = self._version_for(one)
            if version is not None:
                found.append((one, version))
            if number % _MATCH_SLICE == 0:
                await asyncio.sleep(0)
        return found

    def _version_for(self, plugin: AdmissionPlugin) -> ServedResource | None:
        request, served = self._request, self._served
        if plugin.matches(request.operation, served.gvr, request.subresource):
            return served
        # matchPolicy Equivalent: a plugin for one version of a kind also gets the others, converted to that version.
        for other in self._equivalents:
            if plugin.matches(request.operation, other.gvr, request.subresource):
                return other
        return None

    @cached_property
    def _equivalents(self) -> list[ServedResource]:
        return equivalent_resources(self._state.catalog, self._served)

    async def _call(
        self, plugin: AdmissionPlugin, version: ServedResource, converted: Tree | None, old: Tree | None
    ) -> Tree:
        before = None if old is None else await self._convert(version, old)
        request = review_request(self._request, version, converted, before)
        response = await plugin.review(request, self._read_namespace())
        if response.get("uid") != self._request.uid:
            raise ServerFailed(f"{_failure_prefix(plugin)}: expected response.uid={self._request.uid!r}")
        self._context.warnings.extend(response.get("warnings") or ())
        self._record_annotations(plugin, response.get("auditAnnotations") or {})
        if response.get("allowed") is not True:
            if isinstance(plugin, AdmissionPolicy):
                raise plugin.denial(request, response)
            raise _rejection(plugin, response.get("status"))
        return response

    def _record_annotations(self, plugin: AdmissionPlugin, annotations: Tree) -> None:
        prefix = "" if isinstance(plugin, AdmissionPolicy) else f"{plugin.name}/"
        for key, value in annotations.items():
            self._context.annotations.setdefault(f"{prefix}{key}", str(value))

    def _read_namespace(self) -> Tree | None:
        if self._namespace_tree is None and self._request.namespace:
            item = self._state.reader.get_nowait(_NAMESPACES + self._request.namespace)
            self._namespace_tree = None if item is None else cast("Tree", decode_tree(item.value))
        return self._namespace_tree

    async def _convert(self, version: ServedResource, tree: Tree) -> Tree:
        """Returns the object in the version of the plugin."""
        if not self._served.converts_by_webhook:
            return self._converted(version, tree)
        return await conversion_webhook.run_with_conversions(lambda: self._converted(version, tree))

    def _converted(self, version: ServedResource, tree: Tree) -> Tree:
        if self._context.view is not None:
            return self._context.view.show(self._served, tree)
        if version is self._served:
            return tree
        result = cast("Tree", copy_tree(tree))
        conversion.convert_between(self._served, version, result)
        return result

    def _accept_patch(self, plugin: AdmissionPlugin, version: ServedResource, before: Tree, patched: Tree) -> Tree:
        """Returns the object with the patch of a plugin, converted back; raises ServerFailed for a forbidden change."""
        if self._context.view is not None:
            return self._context.view.merge(self._served, before, patched)
        if not is_map(patched.get("metadata")):
            raise ServerFailed(f"{_failure_prefix(plugin)}: it removed the metadata of the object")
        if (patched.get("apiVersion"), patched.get("kind")) != (version.api_version, version.kind):
            raise ServerFailed(f"{_failure_prefix(plugin)}: it changed the kind of the object")
        if any(
            patched["metadata"].get(field) != before["metadata"].get(field) for field in ("name", "namespace", "uid")
        ):
            raise ServerFailed(f"{_failure_prefix(plugin)}: it changed the name, namespace or uid of the object")
        if version is not self._served:
            conversion.convert_between(version, self._served, patched)
        fixed = {field: before["metadata"][field] for field in _FIXED_FIELDS if field in before["metadata"]}
        patched["metadata"] = {
            **{k: v for k, v in patched["metadata"].items() if k not in _FIXED_FIELDS},
            **fixed,
        }
        return patched


def _as_given(_: ServedResource, tree: Tree) -> Tree:
    return tree


def _merge_posted(_: ServedResource, before: Tree, patched: Tree) -> Tree:
    metadata = patched.get("metadata")
    _require_same_kind(before, patched, "object")
    if not is_map(metadata) or _target(metadata) != _target(before["metadata"]):
        raise ServerFailed("Internal error occurred: an admission plugin changed the name or namespace of the object")
    return patched


def _merge_options(_: ServedResource, before: Tree, patched: Tree) -> Tree:
    _require_same_kind(before, patched, "options")
    return patched


def _require_same_kind(before: Tree, patched: Tree, what: str) -> None:
    if (patched.get("apiVersion"), patched.get("kind")) != (before.get("apiVersion"), before.get("kind")):
        raise ServerFailed(f"Internal error occurred: an admission plugin changed the kind of the {what}")


_POSTED: Final = SubresourceView(_as_given, _merge_posted)
"""An object of another kind than the resource that it is posted to."""
_OPTIONS: Final = SubresourceView(_as_given, _merge_options)
"""The options of a request that connects: they have no metadata."""


def _target(metadata: Tree) -> tuple[str, str | None]:
    """The name and namespace of an object."""
    return metadata.get("name") or "", metadata.get("namespace")


def _decode_again(served: ServedResource, tree: Tree, options: WriteOptions) -> list[Cause]:
    """Decodes a new object again after a plugin has changed it; returns the causes of its schema."""
    silent = replace(options, validation="Ignore", duplicates=())
    dropped = meta.read_metadata(tree)
    decoded = object_decoder.apply_schema(served, tree, silent, dropped=dropped)
    if decoded.managed_fields is not None:
        tree["metadata"]["managedFields"] = decoded.managed_fields
    if served.status:
        tree.pop("status", None)
    if served.rules.default is not None:
        served.rules.default(tree)
    if served.rules.admit_create is not None:
        served.rules.admit_create(tree)
    return [one for one in decoded.causes if not (served.status and one.field.partition(".")[0] == "status")]


def _options_tree(operation: Operation, options: WriteOptions | DeleteOptions) -> Tree | None:
    if operation == "CONNECT":  # the options of such a request are its object
        return None
    tree: Tree = {"kind": f"{operation.capitalize()}Options", "apiVersion": "meta.k8s.io/v1"}
    if options.dry_run:
        tree["dryRun"] = ["All"]
    if isinstance(options, WriteOptions):
        manager = {"fieldManager": options.manager} if options.has_manager else {}
        return {**tree, **manager, "fieldValidation": options.validation}
    if options.grace_seconds is not None:
        tree["gracePeriodSeconds"] = options.grace_seconds
    if options.propagation is not None:
        tree["propagationPolicy"] = options.propagation
    conditions = {"uid": options.uid, "resourceVersion": options.resource_version}
    given = {name: value for name, value in conditions.items() if value is not None}
    return {**tree, "preconditions": given} if given else tree


def _patched(plugin: AdmissionPlugin, converted: Tree, response: Tree) -> Tree:
    if response.get("patchType") != "JSONPatch":
        raise ServerFailed(f"{_failure_prefix(plugin)}: unknown patch type {response.get('patchType')!r}")
    try:
        operations = msgspec.json.decode(base64.b64decode(response["patch"], validate=True))
        result = apply_operations(copy_tree(converted), operations, like_kubernetes=True)
    except (binascii.Error, msgspec.DecodeError, TypeError, BadPatch, PatchFailed, Malformed) as error:
        raise ServerFailed(f"{_failure_prefix(plugin)}: its patch cannot be applied: {error}") from error
    if not is_map(result):
        raise ServerFailed(f"{_failure_prefix(plugin)}: its patch leaves no object")
    return result


def _failure_prefix(plugin: AdmissionPlugin) -> str:
    if isinstance(plugin, AdmissionPolicy):
        return f"Internal error occurred: policy '{plugin.name}' failed"
    return f'Internal error occurred: failed calling webhook "{plugin.name}"'


def _rejection(plugin: AdmissionPlugin, status: Any) -> ApiError:
    """Returns the error for the client: the status of the rejection, with the name of the webhook."""
    given: Tree = status if is_map(status) else {}
    code, reason = given.get("code"), given.get("reason") or ""
    message = given.get("message") or reason
    denied = f'admission webhook "{plugin.name}" denied the request'
    details: Any = given.get("details")
    return ApiError(
        f"{denied}: {message}" if message else f"{denied} without explanation",
        code=code if isinstance(code, int) and 400 <= code <= 599 else 400,
        reason=str(reason),
        details=_details(details) if is_map(details) else None,
    )


def _details(details: Any) -> Tree:
    """Returns the status details without malformed causes."""
    causes: Any = details.get("causes")
    valid: Tree = {name: value for name, value in details.items() if name != "causes"}
    if is_list(causes):
        valid["causes"] = [one for one in causes if is_map(one)]
    return valid
