"""Creating and updating objects: decide (in `strategy`), write if nobody else wrote meanwhile, tell the listeners."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any, Final, cast

import msgspec

from levelset.apiserver.eager_coroutines import run_at_once
from levelset.apiserver.registry import conversion_webhook, strategy
from levelset.apiserver.registry import metadata as meta
from levelset.apiserver.registry.metadata import is_deleting
from levelset.apiserver.registry.object_decoder import Decoded, check_place
from levelset.apiserver.registry.storage_codec import served_tree, store_bytes, with_version
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree, World
from levelset.apiserver.schema import field_errors
from levelset.apiserver.verbs import commit, write_admission
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.apiserver.wire.status_errors import too_large
from levelset.objects import encode_tree
from levelset.patch.managed_fields import same_object
from levelset.storage import Item, Mismatch, NowaitReader, NowaitWriter

__all__ = [
    "Change",
    "Written",
    "check_home",
    "check_home_nowait",
    "create",
    "create_nowait",
    "expected",
    "get_item",
    "mutate",
    "rewrite",
    "rewrite_nowait",
    "store_new",
    "store_new_nowait",
    "update",
]

GENERATED_TRIES: Final = 8
LARGEST: Final = 4 * 1024 * 1024
"""What is stored of an object: more than any body may have, with room for what the server adds."""
NAMESPACES: Final = "/registry/core/namespaces/"

_AT_ONCE: Final = nullcontext()

Change = Callable[[Tree, Item], strategy.Settled]
"""Decides what an object becomes: it gets the tree as served, its own to keep, and the item to decode it again from."""


class Written(msgspec.Struct, frozen=True, gc=False):
    """What a write led to, as it is answered: in the served version and with its resourceVersion.

    `item` is what is stored now; None if nothing was (a dry run), or nothing is any more.
    """

    tree: Tree
    item: Item | None
    created: bool = False


async def create(
    world: World, served: ServedResource, namespace: str | None, tree: Tree, options: WriteOptions | None = None
) -> Written:
    """Creates the object in the tree, which is the server's from now on.

    Raises BadRequest, NotFound (no such namespace), Forbidden (the namespace or the definition goes), Invalid, and
    AlreadyExists.
    """
    options = WriteOptions() if options is None else options
    decoded = strategy.begin_create(served, namespace, tree, options)
    with expected(world, served, namespace):
        await check_home(world, served, namespace, tree["metadata"].get("name", ""))
        return await _complete(world, served, namespace, tree, decoded, options=options)


def create_nowait(
    world: World, served: ServedResource, namespace: str | None, tree: Tree, options: WriteOptions
) -> Written:
    """As `create`, at once, on a storage that reads and writes so: a coroutine for every step would take longer."""
    reader, writer = world.reader, world.writer
    assert reader is not None  # the caller has looked
    assert writer is not None
    decoded = strategy.begin_create(served, namespace, tree, options)
    metadata = tree["metadata"]
    check_home_nowait(reader, served, namespace, metadata.get("name", ""))
    if options.dry_run or "generateName" in metadata:
        return run_at_once(_complete(world, served, namespace, tree, decoded, options=options))
    strategy.own_new(world, served, namespace, tree, decoded, options=options)
    strategy.judge_new(world, served, tree, decoded.causes)
    if options.permit is not None:
        options.permit.check(tree, None)
    name = tree["metadata"]["name"]
    try:
        return store_new_nowait(world, writer, served, served.key(namespace, name), tree)
    except Mismatch as error:
        _refuse_existing(served, name, error.current)
        raise


def store_new_nowait(world: World, writer: NowaitWriter, served: ServedResource, key: str, tree: Tree) -> Written:
    """Writes an object that has passed everything, at once; raises Mismatch if there is one already."""
    value = store_bytes(served, tree)
    if len(value) > LARGEST:
        raise too_large(LARGEST)
    item = writer.put_nowait(key, value, expected=0)
    tree["metadata"]["resourceVersion"] = str(item.revision)
    world.stored(served, None, tree)
    return Written(tree, item, True)


async def _complete(
    world: World, served: ServedResource, namespace: str | None, tree: Tree, decoded: Decoded, *, options: WriteOptions
) -> Written:
    """Gives a decoded object the name that it may lack, and stores it."""
    metadata = tree["metadata"]
    if "name" not in metadata and "generateName" in metadata:
        metadata["name"] = await _unused_name(world, served, namespace, metadata["generateName"])
    if options.asking is None:
        strategy.finish_create(world, served, namespace, tree, decoded, options=options)
    else:
        await write_admission.finish_create(world, served, namespace, tree, decoded, options=options)
    return await store_new(world, served, namespace, tree, options)


async def store_new(
    world: World, served: ServedResource, namespace: str | None, tree: Tree, options: WriteOptions
) -> Written:
    """Writes an object that has passed everything; raises AlreadyExists."""
    name = tree["metadata"]["name"]
    key = served.key(namespace, name)
    if options.permit is not None:
        options.permit.check(tree, None)
    if options.dry_run:
        _refuse_existing(served, name, await get_item(world, key))
        return Written(tree, None, created=True)
    value = (
        await conversion_webhook.settle(lambda: store_bytes(served, tree))
        if served.awaits
        else store_bytes(served, tree)
    )
    try:
        item = await commit.put(world, served, key, _bounded(value), old=None, tree=tree)
    except Mismatch as error:
        _refuse_existing(served, name, error.current)
        raise
    if served.awaits:
        await conversion_webhook.convert(served, [item])  # it is answered as it will be read
    return Written(tree, item, created=True)


async def update(
    world: World,
    served: ServedResource,
    namespace: str | None,
    name: str,
    tree: Tree,
    *,
    options: WriteOptions | None = None,
) -> Written:
    """Replaces the object, or its part behind `options.subresource`, with the one in the tree.

    Raises what `create` raises, NotFound, and Conflict if the object is not at the version that the tree names.
    """
    options = WriteOptions() if options is None else options
    key = served.key(namespace, name)
    may_create = served.rules.create_on_update and not options.subresource
    if may_create and await get_item(world, key) is None and not _text(tree, "resourceVersion"):
        meta.read_metadata(tree)
        check_place(tree, namespace, name)
        if options.permit is not None:
            options.permit.check_create(name)
        return await create(world, served, namespace, tree, options)
    body = encode_tree(tree)

    def replace(old: Tree, item: Item) -> strategy.Settled:
        new = cast("Tree", msgspec.json.decode(body))
        _check_version(served, name, new, item)
        _check_uid(served, name, new, old)
        return strategy.settle_update(world, served, old, new, options)

    return await rewrite(world, served, namespace, name, replace, options=options)


async def rewrite(
    world: World, served: ServedResource, namespace: str | None, name: str, change: Change, *, options: WriteOptions
) -> Written:
    """Changes an object; decides again whenever somebody else wrote in between.

    An object that is being deleted and that nothing keeps any more is removed by the same write.
    """
    key = served.key(namespace, name)
    while True:
        item = await get_item(world, key)
        if item is None:
            raise status_errors.object_not_found(served, name)
        if served.awaits:
            await conversion_webhook.convert(served, [item])
        old = served_tree(served, item)
        settled = change(old, item)
        if options.asking is not None:
            settled = await write_admission.settle_update(world, served, old, settled, options)
        if not settled.changed:
            return Written(settled.tree, item)
        if options.permit is not None:
            options.permit.check(settled.tree, old)
        if options.dry_run:
            return Written(with_version(settled.tree, item.revision), None)
        try:
            return await _commit(world, served, item, old, settled.tree)
        except Mismatch:
            continue


def rewrite_nowait(
    world: World, served: ServedResource, namespace: str | None, name: str, change: Change, *, options: WriteOptions
) -> Written:
    """As `rewrite`, at once, on a storage that reads and writes so, where nobody else is asked first."""
    reader, writer = world.reader, world.writer
    assert reader is not None  # the caller has looked
    assert writer is not None
    key = served.key(namespace, name)
    while True:
        item = reader.get_nowait(key)
        if item is None:
            raise status_errors.object_not_found(served, name)
        old = served_tree(served, item)
        settled = change(old, item)
        tree = settled.tree
        if not settled.changed:
            return Written(tree, item)
        if options.permit is not None:
            options.permit.check(tree, old)
        if options.dry_run:
            return Written(with_version(tree, item.revision), None)
        try:
            if "deletionTimestamp" in tree["metadata"]:  # it may be free to go
                return run_at_once(_commit(world, served, item, old, tree))
            value = _changed_bytes(served, tree, item)
            if value is None:
                return Written(with_version(tree, item.revision), item)
            stored = writer.put_nowait(key, value, expected=item.revision)
        except Mismatch:
            continue
        world.stored(served, old, with_version(tree, stored.revision))
        return Written(tree, stored)


async def mutate(
    world: World, served: ServedResource, namespace: str | None, name: str, change: Callable[[Tree], Tree | None]
) -> Tree | None:
    """Changes an object on behalf of the server itself: nothing is validated, and nobody owns the fields.

    `change` gets a tree of its own, may edit it, and returns what is to be stored, or None to leave it. It is called
    again if somebody else wrote in between. Returns the object as it is then, None if there is none (any more).
    """
    key = served.key(namespace, name)
    while True:
        item = await get_item(world, key)
        if item is None:
            return None
        if served.awaits:
            await conversion_webhook.convert(served, [item])
        old = served_tree(served, item)
        new = change(served_tree(served, item))
        if new is None or (same_object(old, new) and not _is_free(served, new)):
            return old
        try:
            written = await _commit(world, served, item, old, new)
        except Mismatch:
            continue
        return None if written.item is None else written.tree


async def get_item(world: World, key: str) -> Item | None:
    """What is stored under a key now."""
    reader = world.reader
    return await world.storage.get(key) if reader is None else reader.get_nowait(key)


async def _commit(world: World, served: ServedResource, item: Item, old: Tree, tree: Tree) -> Written:
    if _is_free(served, tree):
        await commit.remove(world, served, item, old=old)
        return Written(tree, None)
    if served.awaits:
        value = await conversion_webhook.settle(lambda: _changed_bytes(served, tree, item))
    else:
        value = _changed_bytes(served, tree, item)
    if value is None:
        return Written(with_version(tree, item.revision), item)
    stored = await commit.put(world, served, item.key, value, old=old, tree=tree)
    if served.awaits:
        await conversion_webhook.convert(served, [stored])  # it is answered as it will be read
    return Written(tree, stored)


def _changed_bytes(served: ServedResource, tree: Tree, item: Item) -> bytes | None:
    """What is to be stored in the place of an item.

    None if only what is not stored differs, such as a field that the storage version does not know.
    """
    value = store_bytes(served, tree)
    if len(value) > len(item.value):  # one that is too large already may become smaller
        return _bounded(value)
    return None if value == item.value else value


def _bounded(value: bytes) -> bytes:
    """The bytes, if they are not too many: patches, each small, could make an object of any size."""
    if len(value) > LARGEST:
        raise too_large(LARGEST)
    return value


def _is_free(served: ServedResource, tree: Tree) -> bool:
    return is_deleting(tree) and not strategy.is_kept(served, tree)


def expected(world: World, served: ServedResource, namespace: str | None) -> AbstractContextManager[None]:
    """Counts a new object as on its way in to what it cannot be without: its kind, and its namespace.

    Only where there is a way: a storage that writes at once lets nobody in between.
    """
    if world.writer is not None:
        return _AT_ONCE
    homes = (served.prefix,) if namespace is None else (served.prefix, NAMESPACES + namespace)
    return world.arrivals.expect(*homes)


async def check_home(world: World, served: ServedResource, namespace: str | None, name: str) -> None:
    """Makes sure that there is a namespace that takes new objects, and a definition that does."""
    home = None if namespace is None else await get_item(world, NAMESPACES + namespace)
    _judge_home(served, namespace, name, home)


def check_home_nowait(reader: NowaitReader, served: ServedResource, namespace: str | None, name: str) -> None:
    """As `check_home`, at once."""
    home = None if namespace is None else reader.get_nowait(NAMESPACES + namespace)
    if home is None or served.terminating or _is_terminating(home.value):
        _judge_home(served, namespace, name, home)


def _judge_home(served: ServedResource, namespace: str | None, name: str, home: Item | None) -> None:
    if served.terminating:
        raise status_errors.forbidden(
            served, name, "create not allowed while custom resource definition is terminating"
        )
    if not served.namespaced or namespace is None:
        return
    if home is None:
        raise status_errors.missing_namespace(namespace)
    if _is_terminating(home.value):
        raise status_errors.terminating_namespace(served, name, namespace)


@lru_cache(maxsize=256)  # many objects are made in few namespaces, and bytes know their hash
def _is_terminating(space: bytes) -> bool:
    # An annotation may have the same name, so that only a look inside is certain; it is almost never needed.
    return b'"deletionTimestamp":' in space and is_deleting(msgspec.json.decode(space))


async def _unused_name(world: World, served: ServedResource, namespace: str | None, base: str) -> str:
    for _ in range(GENERATED_TRIES):
        name = meta.generate_name(base, world.random)
        if await get_item(world, served.key(namespace, name)) is None:
            return name
    error = status_errors.already_exists(served, base)
    error.details = {**error.details, "retryAfterSeconds": 1}
    raise error


def _refuse_existing(served: ServedResource, name: str, current: Item | None) -> None:
    if current is not None:
        raise status_errors.already_exists(served, name, deleting=is_deleting(msgspec.json.decode(current.value)))


def _check_version(served: ServedResource, name: str, tree: Tree, item: Item) -> None:
    version = _text(tree, "resourceVersion")
    if version in ("", "0"):
        if not served.rules.unconditional_update:
            cause = field_errors.invalid("metadata.resourceVersion", version or 0, "must be specified for an update")
            raise status_errors.invalid(served, name, [cause], kind=served.plural)
    elif version != str(item.revision):
        raise status_errors.stale(served, name)


def _check_uid(served: ServedResource, name: str, tree: Tree, old: Tree) -> None:
    given, found = _text(tree, "uid"), old["metadata"].get("uid")
    if given and given != found:
        raise status_errors.conflict(
            served, name, f"Precondition failed: UID in precondition: {given}, UID in object meta: {found}"
        )


def _text(tree: Tree, name: str) -> str:
    metadata: Any = tree.get("metadata")
    value = cast("Tree", metadata).get(name) if isinstance(metadata, dict) else None
    return value if isinstance(value, str) else ""
