"""Writes about which others are asked: they may change the object before it is judged, and refuse it after.

Nothing here happens for a server without admitters. The order is that of Kubernetes: the object is decoded and its
fields get their owners, those who may change it are asked one after the other, the result goes through the schema and
the rules of its kind, and then all who may only refuse are asked at the same time.
"""

import asyncio
import base64
import binascii
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from levelset.apiserver.admission.chain import Admitter, Asking, Operation, Policy, Question, equivalents, request_tree
from levelset.apiserver.registry import conversion, conversion_webhook, object_decoder, strategy
from levelset.apiserver.registry import metadata as meta
from levelset.apiserver.registry.metadata import new_uid
from levelset.apiserver.registry.object_decoder import Decoded
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree, World
from levelset.apiserver.wire.request_options import DeleteOptions, WriteOptions
from levelset.errors import ApiError, BadPatch, Cause, Malformed, PatchFailed, ServerFailed
from levelset.objects import decode_tree
from levelset.objects.json_tree import copy_tree, is_list, is_map
from levelset.patch import apply_operations

__all__ = ["check_delete", "check_part", "finish_create", "settle_update"]

_NAMESPACES: Final = "/registry/core/namespaces/"
_FIXED: Final = ("creationTimestamp", "generation", "managedFields", "name", "namespace", "resourceVersion", "uid")


async def finish_create(
    world: World,
    served: ServedResource,
    namespace: str | None,
    tree: Tree,
    decoded: Decoded,
    *,
    options: WriteOptions,
    applied: bool = False,
) -> None:
    """As `strategy.finish_create`, in place as well; raises what those who are asked refuse it with, too."""
    strategy.own_new(world, served, namespace, tree, decoded, options=options, applied=applied)
    inquiry = _Inquiry(world, served, "CREATE", tree, options)
    changed = await inquiry.change(tree, None)
    causes = decoded.causes
    if changed is not None:
        again = _read_again(served, changed, options)
        tree.clear()
        tree.update(changed)
        causes = again
    strategy.judge_new(world, served, tree, causes)
    await inquiry.check(tree, None)


async def settle_update(
    world: World, served: ServedResource, old: Tree, settled: strategy.Settled, options: WriteOptions
) -> strategy.Settled:
    """What becomes of an update that `strategy.settle_update` has settled but not judged."""
    tree = cast("Tree", copy_tree(settled.tree))
    inquiry = _Inquiry(world, served, "UPDATE", tree, options)
    changed = await inquiry.change(tree, old)
    quiet = replace(options, asking=None, validation="Ignore", duplicates=())
    # Everything a second time, now with its judgement. The owners of the fields are known: what others added or changed
    # belongs to nobody, as what the server adds does.
    judged = strategy.settle_update(world, served, old, tree if changed is None else changed, quiet, applied=True)
    await inquiry.check(judged.tree, old)
    return judged


async def check_delete(world: World, served: ServedResource, old: Tree, options: DeleteOptions) -> None:
    """Raises what those who are asked refuse the deletion with."""
    inquiry = _Inquiry(world, served, "DELETE", old, options)
    await inquiry.change(None, old)
    await inquiry.check(None, old)


async def check_part(world: World, served: ServedResource, tree: Tree, options: WriteOptions) -> None:
    """Raises what those who are asked refuse with, about something that is sent to a subresource and not stored."""
    inquiry = _Inquiry(world, served, "CREATE", tree, options)
    changed = await inquiry.change(tree, None)
    if changed is not None:
        tree.clear()
        tree.update(changed)
    await inquiry.check(tree, None)


class _Inquiry:
    """All questions about one write; the same uid stands in all of them."""

    def __init__(
        self,
        world: World,
        served: ServedResource,
        operation: Operation,
        tree: Tree,
        options: WriteOptions | DeleteOptions,
    ) -> None:
        assert options.asking is not None  # the caller has looked
        self._asking: Asking = options.asking
        self._world = world
        self._served = served
        metadata = tree["metadata"]
        name, namespace = metadata.get("name") or "", metadata.get("namespace")
        is_space = served.prefix == _NAMESPACES
        self._question = Question(
            uid=new_uid(world.random),
            operation=operation,
            served=served,
            subresource=options.subresource if isinstance(options, WriteOptions) else "",
            name=name,
            # A namespace counts as being in itself.
            namespace=name if is_space else namespace,
            caller=self._asking.caller,
            options=_options_tree(operation, options),
            dry_run=options.dry_run,
        )
        self._space: Tree | None = tree if is_space else None

    async def change(self, new: Tree | None, old: Tree | None) -> Tree | None:
        """The object as those want it who may change it, a tree of its own; None if it stays as it is."""
        made: Tree | None = None
        asked: list[tuple[Admitter, ServedResource]] = []
        again: list[tuple[Admitter, ServedResource]] = []
        for one, seen in self._wanted(self._asking.chain.mutating):
            changed = await self._changed_by(one, seen, new if made is None else made, old)
            if changed is not None:
                made, again = changed, [before for before in asked if before[0].reinvokes]
            asked.append((one, seen))
        for one, seen in again:
            changed = await self._changed_by(one, seen, made, old)
            made = made if changed is None else changed
        return made

    async def _changed_by(
        self, admitter: Admitter, seen: ServedResource, tree: Tree | None, old: Tree | None
    ) -> Tree | None:
        """The object as one of them wants it; None if it stays as it is."""
        shown = None if tree is None else await self._show(seen, tree)
        response = await self._ask(admitter, seen, shown, old)
        if tree is None or shown is None or not response.get("patch"):
            return None
        if not self._served.awaits:
            return self._taken(admitter, seen, tree, _patched(admitter, shown, response))
        return await conversion_webhook.settle(
            lambda: self._taken(admitter, seen, tree, _patched(admitter, shown, response))
        )

    async def check(self, new: Tree | None, old: Tree | None) -> None:
        """Raises the first refusal of those who may only refuse; what policies refuse, nobody else is asked about."""
        for some in (self._asking.chain.judging, self._asking.chain.validating):
            if some:
                await self._check(self._wanted(some), new, old)

    async def _check(self, wanted: "list[tuple[Admitter, ServedResource]]", new: Tree | None, old: Tree | None) -> None:
        if not wanted:
            return
        shown = [None if new is None else await self._show(seen, new) for _, seen in wanted]
        asked = [self._ask(one, seen, tree, old) for (one, seen), tree in zip(wanted, shown, strict=True)]
        if len(asked) == 1:
            await asked[0]
            return
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    def _wanted(self, admitters: tuple[Admitter, ...]) -> list[tuple[Admitter, ServedResource]]:
        """Those of them who are for this write, each with the version in which it wants to see the object."""
        found: list[tuple[Admitter, ServedResource]] = []
        for one in admitters:
            seen = self._version_for(one)
            if seen is not None:
                found.append((one, seen))
        return found

    def _version_for(self, admitter: Admitter) -> ServedResource | None:
        question, served = self._question, self._served
        if admitter.matches(question.operation, served.place, question.subresource):
            return served
        # Somebody who is for one version of a kind is asked about the others, too, and sees them as that one.
        for other in equivalents(self._world.catalog, served):
            if admitter.matches(question.operation, other.place, question.subresource):
                return other
        return None

    async def _ask(self, admitter: Admitter, seen: ServedResource, shown: Tree | None, old: Tree | None) -> Tree:
        before = None if old is None else await self._show(seen, old)
        request = request_tree(self._question, seen, shown, before)
        response = await admitter.review(request, await self._read_space())
        if response.get("uid") != self._question.uid:
            raise ServerFailed(f"{_failing(admitter)}: expected response.uid={self._question.uid!r}")
        self._asking.warnings.extend(response.get("warnings") or ())
        self._note(admitter, response.get("auditAnnotations") or {})
        if response.get("allowed") is not True:
            if isinstance(admitter, Policy):
                raise admitter.refusal(request, response)
            raise _refusal(admitter, response.get("status"))
        return response

    def _note(self, admitter: Admitter, notes: Tree) -> None:
        prefix = "" if isinstance(admitter, Policy) else f"{admitter.name}/"
        for key, value in notes.items():
            self._asking.annotations.setdefault(f"{prefix}{key}", str(value))

    async def _read_space(self) -> Tree | None:
        if self._space is None and self._question.namespace:
            key = _NAMESPACES + self._question.namespace
            reader = self._world.reader
            item = await self._world.storage.get(key) if reader is None else reader.get_nowait(key)
            self._space = None if item is None else cast("Tree", decode_tree(item.value))
        return self._space

    async def _show(self, seen: ServedResource, tree: Tree) -> Tree:
        """The object as the one who is asked sees it."""
        if not self._served.awaits:
            return self._shown(seen, tree)
        return await conversion_webhook.settle(lambda: self._shown(seen, tree))

    def _shown(self, seen: ServedResource, tree: Tree) -> Tree:
        if self._asking.form is not None:
            return self._asking.form.show(self._served, tree)
        if seen is self._served:
            return tree
        made = cast("Tree", copy_tree(tree))
        conversion.between(self._served, seen, made)
        return made

    def _taken(self, admitter: Admitter, seen: ServedResource, before: Tree, patched: Tree) -> Tree:
        """The object after a change that was made to what was shown of it."""
        if self._asking.form is not None:
            return self._asking.form.take(self._served, before, patched)
        if not is_map(patched.get("metadata")):
            raise ServerFailed(f"{_failing(admitter)}: it took away the metadata of the object")
        if (patched.get("apiVersion"), patched.get("kind")) != (seen.api_version, seen.kind):
            raise ServerFailed(f"{_failing(admitter)}: it made another kind of the object")
        if any(patched["metadata"].get(word) != before["metadata"].get(word) for word in ("name", "namespace", "uid")):
            raise ServerFailed(f"{_failing(admitter)}: name, namespace and uid of an object stay as they are")
        if seen is not self._served:
            conversion.between(seen, self._served, patched)
        fixed = {word: before["metadata"][word] for word in _FIXED if word in before["metadata"]}
        patched["metadata"] = {**{k: v for k, v in patched["metadata"].items() if k not in _FIXED}, **fixed}
        return patched


def _read_again(served: ServedResource, tree: Tree, options: WriteOptions) -> list[Cause]:
    """Takes a new object through decoding once more, after somebody has changed it; what its schema says against it."""
    quiet = replace(options, validation="Ignore", duplicates=())
    dropped = meta.read_metadata(tree)
    decoded = object_decoder.admit(served, tree, quiet, dropped=dropped)
    if decoded.managed is not None:
        tree["metadata"]["managedFields"] = decoded.managed
    if served.status:
        tree.pop("status", None)
    if served.rules.default is not None:
        served.rules.default(tree)
    return [one for one in decoded.causes if not (served.status and one.field.partition(".")[0] == "status")]


def _options_tree(operation: Operation, options: WriteOptions | DeleteOptions) -> Tree:
    tree: Tree = {"kind": f"{operation.capitalize()}Options", "apiVersion": "meta.k8s.io/v1"}
    if options.dry_run:
        tree["dryRun"] = ["All"]
    if isinstance(options, WriteOptions):
        named = {"fieldManager": options.manager} if options.named else {}
        return {**tree, **named, "fieldValidation": options.validation}
    if options.grace_seconds is not None:
        tree["gracePeriodSeconds"] = options.grace_seconds
    if options.propagation is not None:
        tree["propagationPolicy"] = options.propagation
    conditions = {"uid": options.uid, "resourceVersion": options.resource_version}
    given = {name: value for name, value in conditions.items() if value is not None}
    return {**tree, "preconditions": given} if given else tree


def _patched(admitter: Admitter, shown: Tree, response: Tree) -> Tree:
    if response.get("patchType") != "JSONPatch":
        raise ServerFailed(f"{_failing(admitter)}: unknown patch type {response.get('patchType')!r}")
    try:
        operations = msgspec.json.decode(base64.b64decode(response["patch"], validate=True))
        made = apply_operations(copy_tree(shown), operations, like_kubernetes=True)
    except (binascii.Error, msgspec.DecodeError, TypeError, BadPatch, PatchFailed, Malformed) as error:
        raise ServerFailed(f"{_failing(admitter)}: its patch cannot be applied: {error}") from error
    if not is_map(made):
        raise ServerFailed(f"{_failing(admitter)}: its patch leaves no object")
    return made


def _failing(admitter: Admitter) -> str:
    if isinstance(admitter, Policy):
        return f"Internal error occurred: policy '{admitter.name}' failed"
    return f'Internal error occurred: failed calling webhook "{admitter.name}"'


def _refusal(admitter: Admitter, status: Any) -> ApiError:
    """The error that a client is told: the status that came with the refusal, signed by the one who refused."""
    told: Tree = status if is_map(status) else {}
    code, reason = told.get("code"), told.get("reason") or ""
    said = told.get("message") or reason
    denied = f'admission webhook "{admitter.name}" denied the request'
    details: Any = told.get("details")
    return ApiError(
        f"{denied}: {said}" if said else f"{denied} without explanation",
        code=code if isinstance(code, int) and 400 <= code <= 599 else 400,
        reason=str(reason),
        details=_details(details) if is_map(details) else None,
    )


def _details(details: Any) -> Tree:
    """The details as they came, but only what a Status may have there."""
    causes: Any = details.get("causes")
    kept: Tree = {name: value for name, value in details.items() if name != "causes"}
    if is_list(causes):
        kept["causes"] = [one for one in causes if is_map(one)]
    return kept
