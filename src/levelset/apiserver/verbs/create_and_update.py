"""Creates and updates objects: `registry/strategy.py` prepares them, `commit.py` stores them with optimistic locking.

Reads return at once. What may have to be awaited is the commit, and admission and conversion webhooks.
"""

import asyncio
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final, cast

import msgspec

from levelset.apiserver.registry import conversion_webhook, strategy
from levelset.apiserver.registry import metadata as meta
from levelset.apiserver.registry.metadata import is_deleting
from levelset.apiserver.registry.object_decoder import DecodedObject, check_name_and_namespace
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.apiserver.schema import field_errors
from levelset.apiserver.verbs import commit, write_admission
from levelset.apiserver.verbs.commit import WriteResult, can_be_removed
from levelset.apiserver.verbs.get_and_list import get_item, read_large
from levelset.apiserver.verbs.quota_admission import charge_quotas
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.large_bodies import MAX_LOOP_VALUES, has_too_many_values
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.apiserver.wire.step_limits import (
    LARGE_OBJECT,
    LOOP_STEPS,
    run_limited,
    run_off_loop,
)
from levelset.errors import ApiError
from levelset.objects import decode_tree, encode_tree
from levelset.patch.managed_fields import managed_fields, same_object
from levelset.re2.step_budget import StepsExceeded, within
from levelset.storage import Item, Mismatch

__all__ = [
    "Change",
    "WriteResult",
    "check_resource_version",
    "check_version_number",
    "create",
    "create_complete",
    "guaranteed_update",
    "mutate",
    "update",
]

GENERATE_NAME_ATTEMPTS: Final = 8
CLAIM_ATTEMPTS: Final = 16
NAMESPACE_PREFIX: Final = "/registry/core/namespaces/"
DEFINITION_PREFIX: Final = "/registry/apiextensions.k8s.io/customresourcedefinitions/"

Change = Callable[[Tree, Item], strategy.PreparedUpdate]
"""Computes an update from the served tree, which it may keep, and from the item, to decode a second tree from."""


async def create(  # noqa: PLR0912 - a coroutine of its own for each step would cost every create more than the branch
    state: ServerState,
    served: ServedResource,
    namespace: str | None,
    tree: Tree,
    options: WriteOptions | None = None,
    *,
    applied: DecodedObject | None = None,
    attempts: int = CLAIM_ATTEMPTS,
) -> WriteResult:
    """Creates the object in the tree; takes ownership of the tree.

    `applied` is given by server-side apply, which has decoded the object and set its managedFields. Raises BadRequest,
    NotFound (no such namespace), Forbidden (the namespace or the CRD is terminating), Invalid, and AlreadyExists.
    If another object gets an allocated value of this one first, it gets another value, in up to so many `attempts`.
    """
    options = WriteOptions() if options is None else options
    draft = encode_tree(tree) if served.prefix in state.claimers else None
    is_large = options.is_large and _may_leave_loop(state, served, tree)
    is_limited = is_large or served.has_programs
    if applied is not None:
        decoded = applied
    elif is_limited:
        decoded = await _decode_new(state, served, namespace, tree, options)
    else:
        decoded = strategy.decode_new(served, namespace, tree, options)
    in_flight, is_applied = state.in_flight_creates, applied is not None
    metadata: Tree = tree["metadata"]
    in_flight.scopes[id(tree)] = (served.prefix, namespace)
    try:
        guards = _check_active(state, served, namespace, metadata.get("name", ""))
        if "name" not in metadata and "generateName" in metadata:
            metadata["name"] = _unused_name(state, served, namespace, metadata["generateName"])
        if is_large:  # in a thread, and further below its warnings, which read all schemas of a definition
            complete = partial(strategy.complete_new, state, served, namespace, tree, decoded)
            await run_off_loop(state.expensive_work, partial(complete, options=options, is_applied=is_applied))
        else:
            strategy.complete_new(state, served, namespace, tree, decoded, options=options, is_applied=is_applied)
        if options.admission is not None:
            await write_admission.admit_create(state, served, tree, decoded.causes, options)
        elif is_limited:
            validate = partial(strategy.validate_new, state, served, tree, decoded.causes, options)
            await run_limited(state.expensive_work, validate, is_large=is_large)
        else:
            strategy.validate_new(state, served, tree, decoded.causes, options)
        if decoded.version or served.rules.warnings is not None or (served.custom and "finalizers" in metadata):
            accept = partial(strategy.accept_new, served, tree, decoded, options, is_applied=is_applied)
            await run_off_loop(state.expensive_work, accept) if is_large else accept()
        if options.authorizer is not None or served.prefix in state.write_checks:
            _check_new(state, served, tree, options)
        if options.dry_run or (state.quotas and namespace in state.quotas):
            return await _commit_charged(state, served, namespace, tree, guards, dry_run=options.dry_run)
        if guards is not None:
            return await _commit_guarded(state, served, namespace, tree, guards)
        return await commit.write(state, served, served.key(namespace, metadata["name"]), tree)
    except Mismatch as error:
        again = _draft_again(served, namespace, metadata, error, draft if attempts > 1 else None)
        return await create(state, served, namespace, again, options, applied=applied, attempts=attempts - 1)
    finally:
        in_flight.end(tree)


async def create_complete(state: ServerState, served: ServedResource, namespace: str | None, tree: Tree) -> WriteResult:
    """Creates an object of the server's own that is complete and valid already: as `create`, which would not change it.

    Takes ownership of the tree. Raises NotFound, Forbidden and AlreadyExists.
    """
    name, in_flight = tree["metadata"]["name"], state.in_flight_creates
    in_flight.scopes[id(tree)] = (served.prefix, namespace)
    try:
        guards = _check_active(state, served, namespace, name)
        return await _commit_charged(state, served, namespace, tree, guards, dry_run=False)
    except Mismatch as error:
        _raise_if_exists(served, name, error.current)
        raise
    finally:
        in_flight.end(tree)


def _check_new(state: ServerState, served: ServedResource, tree: Tree, options: WriteOptions) -> None:
    """What the kind demands of the user who creates an object, and of the object itself."""
    if options.authorizer is not None:
        options.authorizer.check(tree, None)
    if served.prefix in state.write_checks:
        state.write_checks[served.prefix](served, tree, None, options)


async def update(
    state: ServerState,
    served: ServedResource,
    namespace: str | None,
    name: str,
    tree: Tree,
    *,
    options: WriteOptions | None = None,
    source: bytes | None = None,
) -> WriteResult:
    """Replaces the object, or the part that `options.subresource` names, with the tree.

    With `source`, the JSON that the tree was decoded from, takes ownership of the tree. Raises what `create` raises,
    NotFound, and Conflict if the resourceVersion of the tree is not the stored one.
    """
    options = WriteOptions() if options is None else options
    key = served.key(namespace, name)
    may_create = served.rules.create_on_update and not options.subresource
    if may_create and state.reader.get_nowait(key) is None:
        read = decode_tree(encode_tree({"metadata": tree.get("metadata")}))  # `create` reports its unknown fields
        meta.read_metadata(read)
        if uid := _metadata_text(read, "uid"):  # of an object that was deleted: it does not come back
            raise _other_uid(served, namespace, name, uid, "")
        check_name_and_namespace(read, namespace, name)
        if options.authorizer is not None:
            options.authorizer.check_create(name)
        check_version_number(_metadata_text(read, "resourceVersion"))
        options = msgspec.structs.replace(options, creates_on_update=True)
        return await create(state, served, namespace, tree, options)
    body = encode_tree(tree) if source is None else source
    unused = [] if source is None else [tree]  # for the first attempt

    def replace(old: Tree, _item: Item) -> strategy.PreparedUpdate:
        new = unused.pop() if unused else decode_tree(body)
        if options.is_large:
            _may_leave_loop(state, served, new)
        _check_preconditions(served, name, new, old)
        return strategy.prepare_update(state, served, old, new, options)

    return await guaranteed_update(state, served, namespace, name, replace, options=options)


async def guaranteed_update(
    state: ServerState,
    served: ServedResource,
    namespace: str | None,
    name: str,
    change: Change,
    *,
    options: WriteOptions,
) -> WriteResult:
    """Updates an object; computes the change again whenever another write was committed in between.

    A terminating object without finalizers is removed by the same write.
    """
    taken = 0  # how many times in a row a unique value of the object belonged to another one
    while True:
        item = get_item(state, served, namespace, name)
        if served.converts_by_webhook:
            await conversion_webhook.convert_items(served, [item])
        is_large = (options.is_large or len(item.value) > LARGE_OBJECT) and _may_leave_loop(state, served)
        old = await read_large(state, served, item) if is_large else served_tree(served, item)
        if is_large or served.has_programs:
            prepared = await _run_change(state, change, old, item, options, is_large=is_large)
        else:
            prepared = change(old, item)
        if options.admission is not None:
            prepared = await write_admission.admit_update(state, served, old, prepared, options)
        again = not prepared.changed and _is_stored_again(served, item, prepared.tree, options)
        if not prepared.changed and not again and not can_be_removed(served, prepared.tree):
            return WriteResult(prepared.tree, item)
        if options.authorizer is not None:
            options.authorizer.check(prepared.tree, old)
        if (check := state.write_checks.get(served.prefix)) is not None:
            check(served, prepared.tree, old, options)
        if state.quotas and namespace in state.quotas and not options.subresource:
            await charge_quotas(state, served, namespace, prepared.tree, old=old, dry_run=options.dry_run)
        if options.dry_run:
            return await commit.preview(served, prepared.tree, item)
        try:
            return await commit.write(state, served, item.key, prepared.tree, item=item, old=old, again=again)
        except Mismatch as error:
            taken = 0 if error.key == item.key else taken + 1
            if taken == CLAIM_ATTEMPTS:
                raise


def _is_stored_again(served: ServedResource, item: Item, tree: Tree, options: WriteOptions) -> bool:
    stored_again = served.rules.stored_again
    return stored_again is not None and item.version == 1 and not options.dry_run and stored_again(tree)


async def _decode_new(
    state: ServerState, served: ServedResource, namespace: str | None, tree: Tree, options: WriteOptions
) -> DecodedObject:
    """Decodes a new object in place; its schema may need a thread, which gets a copy of the tree."""
    if options.is_large:
        return await run_off_loop(state.expensive_work, lambda: strategy.decode_new(served, namespace, tree, options))
    if served.custom:
        schema = served.schema()
        if schema is None or not schema.is_expensive:
            return strategy.decode_new(served, namespace, tree, options)
    body, warnings = encode_tree(tree), len(options.warnings)
    try:
        return within(LOOP_STEPS, lambda: strategy.decode_new(served, namespace, tree, options))
    except StepsExceeded:
        del options.warnings[warnings:]
    tree.clear()
    tree.update(msgspec.json.decode(body))
    return await run_off_loop(state.expensive_work, lambda: strategy.decode_new(served, namespace, tree, options))


def _may_leave_loop(state: ServerState, served: ServedResource, tree: Tree | None = None) -> bool:
    """Whether a thread may prepare objects of this kind: not if its rules allocate something, as those of Services.

    Raises ApiError (413) for a large tree that only the event loop may prepare, if it has many values.
    """
    if served.prefix not in state.reservers:
        return True
    if tree is not None and has_too_many_values(encode_tree(tree), MAX_LOOP_VALUES):
        raise status_errors.too_many_values(MAX_LOOP_VALUES)
    return False


async def _run_change(
    state: ServerState, change: Change, old: Tree, item: Item, options: WriteOptions, *, is_large: bool
) -> strategy.PreparedUpdate:
    warnings = len(options.warnings)
    if not is_large:
        try:
            return within(LOOP_STEPS, lambda: change(old, item))
        except StepsExceeded:
            del options.warnings[warnings:]
    return await run_off_loop(state.expensive_work, lambda: change(old, item))


async def mutate(
    state: ServerState, served: ServedResource, namespace: str | None, name: str, change: Callable[[Tree], Tree | None]
) -> Tree | None:
    """Changes an object on behalf of the server: without admission, validation or field ownership.

    `change` may modify its argument, and returns the tree to store, or None to leave the object unchanged. It is called
    again if another write was committed in between. Returns the resulting object; None if it does not exist (any more).
    """
    key = served.key(namespace, name)
    taken = 0  # as in `guaranteed_update`
    while True:
        item = state.reader.get_nowait(key)
        if item is None:
            return None
        if served.converts_by_webhook:
            await conversion_webhook.convert_items(served, [item])
        old = served_tree(served, item)
        new = change(served_tree(served, item))
        is_same = new is not None and same_object(old, new) and managed_fields(old) == managed_fields(new)
        if new is None or (is_same and not can_be_removed(served, new)):
            return old
        if len(item.value) > LARGE_OBJECT:
            await asyncio.sleep(0)  # its listeners read and copy it again: others take a turn in between
        try:
            written = await commit.write(state, served, key, new, item=item, old=old)
        except Mismatch as error:
            taken = 0 if error.key == key else taken + 1
            if taken == CLAIM_ATTEMPTS:
                raise
            continue
        return None if written.item is None else written.tree


async def _commit_charged(
    state: ServerState,
    served: ServedResource,
    namespace: str | None,
    tree: Tree,
    guards: dict[str, int] | None,
    *,
    dry_run: bool,
) -> WriteResult:
    """Commits a new object that the quotas of its namespace are charged for; a failure is counted again.

    A dry run raises what the commit would raise.
    """
    name = tree["metadata"]["name"]
    if namespace is not None and namespace in state.quotas:
        await charge_quotas(state, served, namespace, tree, dry_run=dry_run)
    if dry_run:
        current = state.reader.get_nowait(served.key(namespace, name))
        _raise_if_exists(served, name, current, is_generated=bool(tree["metadata"].get("generateName")))
        return await commit.preview(served, tree)
    try:
        return await _commit_guarded(state, served, namespace, tree, guards)
    except BaseException:
        if namespace is not None and state.recount_quotas is not None:
            state.recount_quotas(namespace)
        raise


async def _commit_guarded(
    state: ServerState, served: ServedResource, namespace: str | None, tree: Tree, guards: dict[str, int] | None
) -> WriteResult:
    """Commits a new object only if its namespace and its CRD are as they were when they were checked.

    Another server may have begun to delete them: it does not know the creates that are in flight here.
    """
    name = tree["metadata"]["name"]
    while True:
        try:
            return await commit.write(state, served, served.key(namespace, name), tree, guards=guards)
        except Mismatch as error:
            if guards is None or error.key not in guards:
                raise
        guards = _check_active(state, served, namespace, name) or {}


def _check_active(
    state: ServerState, served: ServedResource, namespace: str | None, name: str
) -> dict[str, int] | None:
    """Raises NotFound or Forbidden unless the namespace exists and neither it nor the CRD is terminating.

    Returns the revisions of both if other servers may change them before the object is committed; else None.
    """
    if served.terminating:
        raise _terminating_definition(served, name)
    guards = None if state.follows_since is None else _definition_guards(state, served, name)
    if not served.namespaced or namespace is None:
        return guards
    item = state.reader.get_nowait(NAMESPACE_PREFIX + namespace)
    if item is None:
        raise status_errors.missing_namespace(namespace)
    if _is_terminating(item.value):
        raise status_errors.terminating_namespace(served, name, namespace)
    if guards is not None:
        guards[item.key] = item.revision
    return guards


def _definition_guards(state: ServerState, served: ServedResource, name: str) -> dict[str, int]:
    """The revision of the CRD of a custom resource; nothing for a built-in kind."""
    if not served.custom:
        return {}
    item = state.reader.get_nowait(DEFINITION_PREFIX + served.qualified)
    if item is None or _is_terminating(item.value):
        raise _terminating_definition(served, name)
    return {item.key: item.revision}


def _terminating_definition(served: ServedResource, name: str) -> Exception:
    return status_errors.forbidden(served, name, "create not allowed while custom resource definition is terminating")


@lru_cache(maxsize=256)  # creates are in few namespaces, and bytes cache their hash
def _is_terminating(value: bytes) -> bool:
    # The text may also occur in an annotation: only decoding is certain, and it is rarely needed.
    return b'"deletionTimestamp":' in value and is_deleting(msgspec.json.decode(value))


def _unused_name(state: ServerState, served: ServedResource, namespace: str | None, base: str) -> str:
    for _ in range(GENERATE_NAME_ATTEMPTS):
        name = meta.generate_name(base, state.random)
        if state.reader.get_nowait(served.key(namespace, name)) is None:
            return name
    raise status_errors.no_unique_name(served, base)


def _draft_again(
    served: ServedResource, namespace: str | None, metadata: Tree, error: Mismatch, draft: bytes | None
) -> Tree:
    """The draft of an object that lost a unique value to another one; raises if that is not what went wrong."""
    name, is_generated = metadata["name"], bool(metadata.get("generateName"))
    if error.key == served.key(namespace, name):
        _raise_if_exists(served, name, error.current, is_generated=is_generated)
    if draft is None or error.current is None:
        raise error
    return cast("Tree", msgspec.json.decode(draft))


def _raise_if_exists(served: ServedResource, name: str, current: Item | None, *, is_generated: bool = False) -> None:
    """Raises AlreadyExists; as upstream, an object with a `generateName` is taken to have a generated name."""
    if current is None:
        return
    if is_generated:
        raise status_errors.no_unique_name(served, name)
    raise status_errors.already_exists(served, name, deleting=is_deleting(msgspec.json.decode(current.value)))


def _check_preconditions(served: ServedResource, name: str, tree: Tree, old: Tree) -> None:
    """Raises Conflict unless the object has the resourceVersion and the uid in the tree, where it has them."""
    version, uid = _metadata_text(tree, "resourceVersion"), _metadata_text(tree, "uid")
    found = old["metadata"].get("uid")
    if uid and uid != found:
        raise _other_uid(served, tree["metadata"].get("namespace"), name, uid, found)
    check_resource_version(served, name, version, old)


def check_resource_version(served: ServedResource, name: str, version: str, old: Tree) -> None:
    """Raises Invalid if the kind needs a resourceVersion and there is none, and Conflict if it is an old one."""
    if version in ("", "0"):
        if not served.rules.unconditional_update:
            cause = field_errors.invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise status_errors.invalid(served, name, [cause], kind=served.plural)
    elif version != old["metadata"]["resourceVersion"]:
        raise status_errors.stale(served, name, version)


def check_version_number(version: str | None) -> None:
    """Raises 500, as upstream, for the resourceVersion of an object to be created that is no number."""
    if version and not (version.isascii() and version.isdigit()):
        raise ApiError(f'strconv.ParseUint: parsing "{version}": invalid syntax', code=500, reason="")


def _other_uid(served: ServedResource, namespace: str | None, name: str, uid: str, found: str) -> ApiError:
    problem = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {found}"
    return status_errors.failed_precondition(served, namespace, name, problem)


def _metadata_text(tree: Tree, name: str) -> str:
    metadata: Any = tree.get("metadata")
    value: Any = metadata.get(name) if metadata.__class__ is dict else None
    return value if value.__class__ is str else ""
