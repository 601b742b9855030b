"""Server-side apply: an object is created, or the manager's wishes are laid over the one that is there.

The apply that creates an object, at once: what a controller does for each of its children, without a detour.

An apply is written for the object that may be there, and for whoever must be waited for. Where there is none and
nobody waits, all that is applied becomes the object: it is read once, judged once, and written. Whatever is not as
plain as that is left to `applying`, which begins again from the body; nothing has happened by then.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, cast

from levelset.apiserver.registry import metadata as meta
from levelset.apiserver.registry import strategy
from levelset.apiserver.registry.object_decoder import Decoded, check_place
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.registry.strategy import reset_fields
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree, World, utc_now
from levelset.apiserver.schema import Compiled, field_errors
from levelset.apiserver.verbs import create_and_update, write_admission
from levelset.apiserver.verbs.create_and_update import Written, get_item, rewrite
from levelset.apiserver.verbs.subresources import scale
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.large_bodies import is_json
from levelset.apiserver.wire.negotiation import JSON, YAML, read_text
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.apiserver.wire.status_errors import Undecodable
from levelset.errors import AlreadyExists, ApplyConflict, BadObject, BadPatch, BadRequest, NotFound
from levelset.objects import decode_tree, encode_tree
from levelset.objects.json_tree import copy_tree, walk
from levelset.patch import apply as server_side
from levelset.patch.apply import first_managed
from levelset.patch.last_applied import KUBECTL
from levelset.patch.managed_fields import entry_time
from levelset.storage import Item, Mismatch

__all__ = ["apply", "create_applied"]

# What a new object may not say about itself.
_UNUSUAL: Final = frozenset({"managedFields", "resourceVersion", "uid"})


def create_applied(
    world: World, served: ServedResource, namespace: str | None, name: str, body: bytes, *, options: WriteOptions
) -> Written | None:
    """Creates the object in the body, as JSON, if there is none; None if that is not for here: nothing was done then.

    The options name a manager. What is raised here `applying` would raise as well, after the same questions.
    """
    reader, writer = world.reader, world.writer
    if reader is None or writer is None or not _is_plain(served, options):
        return None
    key = served.key(namespace, name)
    if reader.get_nowait(key) is not None:
        return None
    tree = _read_new(served, namespace, name, body)
    decoded = None if tree is None else _accepted(world, served, tree, options.manager)
    if tree is None or decoded is None:
        return None
    create_and_update.check_home_nowait(reader, served, namespace, name)
    strategy.own_new(world, served, namespace, tree, decoded, options=options, applied=True)
    strategy.judge_new(world, served, tree, decoded.causes)
    try:
        return create_and_update.store_new_nowait(world, writer, served, key, tree)
    except Mismatch:  # somebody who was asked to judge it has made it
        return None


def _is_plain(served: ServedResource, options: WriteOptions) -> bool:
    """Whether the whole object is meant and kept, and nobody else has a say in it."""
    return not (
        options.subresource
        or options.dry_run
        or options.asking is not None
        or options.permit is not None
        or options.duplicates
        or served.awaits
        or options.manager == KUBECTL
    )


def _read_new(served: ServedResource, namespace: str | None, name: str, body: bytes) -> Tree | None:
    """The object in the body, with its metadata read, if it is of this type, place and name."""
    if body[:1] != b"{":
        return None
    try:
        tree: Tree = decode_tree(body)
    except BadObject:
        return None
    if tree.get("apiVersion") != served.api_version or tree.get("kind") != served.kind:
        return None
    meta.read_metadata(tree)
    metadata = tree["metadata"]
    if metadata.get("name") != name or metadata.get("namespace", namespace) != namespace:
        return None
    if not _UNUSUAL.isdisjoint(metadata) or (served.status and "status" in tree):
        return None
    return tree


def _accepted(world: World, served: ServedResource, tree: Tree, manager: str) -> Decoded | None:
    """Notes what the manager owns, and then has the schema fill in its defaults, which nobody owns.

    None if there is any doubt: an unknown field, a null, something invalid. The tree is of no use then.
    """
    time = meta.stamp(world) if world.now is utc_now else entry_time(world.now())
    try:
        managed = first_managed(tree, manager=manager, shape=served.shape(), time=time, api_version=served.api_version)
    except (BadPatch, RecursionError):
        return None
    schema = served.schema()
    return Decoded([], managed) if schema is None or schema.accepts(tree) else None


async def apply(
    world: World, served: ServedResource, namespace: str | None, name: str, body: bytes, *, options: WriteOptions
) -> Written:
    """Applies the YAML or JSON in the body; creates the object if there is none and the whole object is meant.

    Raises Invalid without a manager, BadRequest for a body that cannot be applied here, ApplyConflict.
    """
    if not options.named:
        cause = field_errors.required("fieldManager", "is required for apply patch")
        raise status_errors.bad_options("PatchOptions", [cause])
    created = create_applied(world, served, namespace, name, body, options=options)
    if created is not None:
        return created
    config, is_named = _read(served, namespace, name, body, options)
    schema = served.schema()
    if schema is not None:
        _check_fields(served, schema, config)
    configs = _attempts(config, lambda: _read(served, namespace, name, body, options)[0])
    written = await _apply(world, served, namespace, name, configs, options=options, is_named=is_named)
    return scale.as_scale(served, written) if options.subresource == "scale" else written


def _read(
    served: ServedResource, namespace: str | None, name: str, body: bytes, options: WriteOptions
) -> tuple[Tree, bool]:
    """What is applied, and whether it says its name, which only one that is new has to.

    Raises BadRequest for what is no object of this endpoint.
    """
    config = _parse(body)
    if options.subresource == "scale":
        config = scale.wanted_object(served, name, config)
    if (config.get("apiVersion"), config.get("kind")) != (served.api_version, served.kind):
        found = f"{config.get('apiVersion')} {config.get('kind')}"
        raise BadRequest(f"the applied object must be {served.api_version} {served.kind}, not {found}")
    meta.read_metadata(config)
    is_named = "name" in config["metadata"]
    check_place(config, namespace, name)
    return config, is_named


def _attempts(first: Tree, read: Callable[[], Tree]) -> Iterator[Tree]:
    """What is applied, anew for every attempt: each makes it part of an object, and edits that in place.

    To read the body again is faster than to keep a copy, and few need it.
    """
    yield first
    while True:
        yield read()


async def _apply(
    world: World,
    served: ServedResource,
    namespace: str | None,
    name: str,
    configs: Iterator[Tree],
    *,
    options: WriteOptions,
    is_named: bool,
) -> Written:
    while True:
        missing = not options.subresource and await get_item(world, served.key(namespace, name)) is None
        try:
            if missing and not is_named:
                problem = f"the name of the object ({name} based on URL) was undeterminable"
                raise BadRequest(f"{problem}: name must be provided")
            if missing:
                return await _create(world, served, namespace, next(configs), options)
            change = _change(world, served, name, configs, options)
            return await rewrite(world, served, namespace, name, change, options=options)
        except AlreadyExists:
            if not missing or options.dry_run:
                raise
        except NotFound:
            # It went between our look and our write: then there is something to create after all.
            if missing or options.subresource:
                raise


def _change(
    world: World, served: ServedResource, name: str, configs: Iterator[Tree], options: WriteOptions
) -> create_and_update.Change:
    def change(old: Tree, item: Item) -> strategy.Settled:
        merged = _laid_over(world, served, served_tree(served, item), next(configs), options)
        version = merged["metadata"].get("resourceVersion")
        if version != old["metadata"]["resourceVersion"]:
            raise status_errors.stale(served, name)
        return strategy.settle_update(world, served, old, merged, options, applied=True)

    return change


async def _create(
    world: World, served: ServedResource, namespace: str | None, config: Tree, options: WriteOptions
) -> Written:
    name = config["metadata"]["name"]
    if options.permit is not None:
        options.permit.check_create(name)
    given = config["metadata"].get("uid")
    if given:
        problem = f"uid mismatch: the provided object specified uid {given}, and no existing object was found"
        raise status_errors.conflict(served, name, problem)
    tree = _laid_over(world, served, None, config, options)
    try:
        # Its type, its metadata and its place were read with what was applied; kubectl's annotation is newer.
        dropped = meta.read_metadata(tree) if options.manager == KUBECTL else []
        decoded = strategy.admit_new(served, tree, options, dropped=dropped)
    except RecursionError:
        raise Undecodable("the object is nested too deeply") from None
    with create_and_update.expected(world, served, namespace):
        await create_and_update.check_home(world, served, namespace, name)
        if options.asking is None:
            strategy.finish_create(world, served, namespace, tree, decoded, options=options, applied=True)
        else:
            await write_admission.finish_create(world, served, namespace, tree, decoded, options=options, applied=True)
        return await create_and_update.store_new(world, served, namespace, tree, options)


def _laid_over(world: World, served: ServedResource, old: Tree | None, config: Tree, options: WriteOptions) -> Tree:
    """The object after the apply, with its managedFields; made of both trees, which are its own from now on."""
    try:
        applied = server_side.apply(
            old,
            config,
            manager=options.manager,
            shape=served.shape(),
            now=world.now(),
            api_version=served.api_version,
            force=options.force is True,
            subresource=options.subresource or None,
            ignore=reset_fields(served, options.subresource),
        )
    except ApplyConflict:
        raise
    except BadPatch as error:
        raise BadRequest(f"the object cannot be applied: {error}") from error
    return applied.object


def _parse(body: bytes) -> Tree:
    tree: Any = None
    if body[:1] == b"{":
        try:
            tree = decode_tree(body)
        except BadObject:
            tree = None  # then it is YAML, or somebody is to be told what is wrong with it
    if tree is None:
        tree = read_text(body, JSON if body[:1] == b"{" and is_json(body) else YAML)
    if not isinstance(tree, dict):
        raise BadRequest("an applied object must be an object")
    return cast("Tree", tree)


def _check_fields(served: ServedResource, schema: Compiled, config: Tree) -> None:
    """Makes sure that all fields of an applied object can be owned; raises BadRequest, or Invalid for a null."""
    if _is_accepted(schema, config):
        return
    filled = cast("Tree", copy_tree(config))
    unknown = schema.prune(filled)
    if unknown:
        raise BadRequest(f"the object cannot be applied: fields not declared in schema: {', '.join(unknown)}")
    if not served.custom or not _has_null(config):
        return
    # Elsewhere a null that may not be there counts as absent; whoever applies it would own nothing at that place.
    schema.default(filled)
    causes = [
        field_errors.type_invalid(str(path), None, "must not be null")
        for path, value in walk(config)
        if value is None and _is_gone(filled, path.tokens)
    ]
    if causes:
        raise status_errors.invalid(served, config["metadata"]["name"], causes)


def _is_accepted(schema: Compiled, config: Tree) -> bool:
    """Whether there is certainly nothing that the schema does not know, nor a null that it would take out."""
    try:
        return schema.accepts(decode_tree(encode_tree(config)))  # a copy, of which the fastest
    except BadObject:  # YAML has values that JSON has not
        return False


def _has_null(tree: Any) -> bool:
    """Whether there is a null anywhere; most objects have none, and then nobody needs to know where."""
    waiting = [tree]
    while waiting:
        value = waiting.pop()
        if value is None:
            return True
        if isinstance(value, dict):
            waiting.extend(cast("Tree", value).values())
        elif isinstance(value, list):
            waiting.extend(value)  # pyright: ignore[reportUnknownArgumentType] - a JSON tree
    return False


def _is_gone(tree: Any, tokens: Iterable[str | int]) -> bool:
    try:
        for token in tokens:
            tree = tree[token]
    except (KeyError, IndexError, TypeError):
        return True
    return False
