"""Server-side apply: creates an object, or merges the applied configuration of a field manager into the existing one.

`create_applied` is the fast path for the most frequent apply, the creation of a child by a controller on a synchronous
storage: the body is decoded once, validated once and written. In every other case (the object exists, an unknown field,
a null, admission, ...) it returns None without any effect, and `apply` starts again from the body.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, cast

from levelset.apiserver.registry import metadata as meta
from levelset.apiserver.registry import strategy
from levelset.apiserver.registry.object_decoder import DecodedObject, check_name_and_namespace
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.registry.strategy import ignored_fields
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree, utc_now
from levelset.apiserver.schema import Compiled, field_errors
from levelset.apiserver.verbs import create_and_update, write_admission
from levelset.apiserver.verbs.create_and_update import WriteResult, get_item, guaranteed_update
from levelset.apiserver.verbs.subresources import scale
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.large_bodies import is_json_body
from levelset.apiserver.wire.negotiation import JSON, YAML, read_text
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.apiserver.wire.status_errors import Undecodable
from levelset.errors import AlreadyExists, ApplyConflict, BadObject, BadPatch, BadRequest, NotFound
from levelset.objects import decode_tree, encode_tree
from levelset.objects.json_tree import copy_tree, walk
from levelset.patch import server_side_apply
from levelset.patch.last_applied import KUBECTL
from levelset.patch.managed_fields import entry_time
from levelset.patch.server_side_apply import first_managed
from levelset.storage import Item, Mismatch

__all__ = ["apply", "create_applied"]


# Metadata that a client must not set on a new object.
_SERVER_METADATA: Final = frozenset({"managedFields", "resourceVersion", "uid"})


async def apply(
    state: ServerState, served: ServedResource, namespace: str | None, name: str, body: bytes, *, options: WriteOptions
) -> WriteResult:
    """Applies the YAML or JSON body; creates the object if it does not exist, except for a subresource.

    Raises Invalid without a manager, BadRequest for a body that cannot be applied here, ApplyConflict.
    """
    if not options.has_manager:
        cause = field_errors.required("fieldManager", "is required for apply patch")
        raise status_errors.bad_options("PatchOptions", [cause])
    created = create_applied(state, served, namespace, name, body, options=options)
    if created is not None:
        return created
    config, has_name = _read(served, namespace, name, body, options)
    schema = served.schema()
    if schema is not None:
        _check_fields(served, schema, config)
    configs = _configs(config, lambda: _read(served, namespace, name, body, options)[0])
    written = await _apply(state, served, namespace, name, configs, options=options, has_name=has_name)
    return scale.as_scale(served, written) if options.subresource == "scale" else written


def create_applied(
    state: ServerState, served: ServedResource, namespace: str | None, name: str, body: bytes, *, options: WriteOptions
) -> WriteResult | None:
    """Creates the object in the JSON body; returns None, without any effect, if only the general path can apply it.

    The options must name a field manager. It raises only errors that `apply` would raise as well.
    """
    reader, writer = state.reader, state.writer
    if reader is None or writer is None or not _is_simple_create(served, options):
        return None
    key = served.key(namespace, name)
    if reader.get_nowait(key) is not None:
        return None
    tree = _decode_new(served, namespace, name, body)
    decoded = None if tree is None else _managed_if_accepted(state, served, tree, options.manager)
    if tree is None or decoded is None:
        return None
    create_and_update.check_namespace_nowait(reader, served, namespace, name)
    strategy.complete_new(state, served, namespace, tree, decoded, options=options, applied=True)
    strategy.validate_new(state, served, tree, decoded.causes)
    try:
        return create_and_update.store_new_nowait(state, writer, served, key, tree)
    except Mismatch:  # a validator has created it meanwhile
        return None


def _is_simple_create(served: ServedResource, options: WriteOptions) -> bool:
    """Whether this writes a whole object without admission, authorization, conversion or kubectl's annotation."""
    return not (
        options.subresource
        or options.dry_run
        or options.admission is not None
        or options.authorizer is not None
        or options.duplicates
        or served.converts_by_webhook
        or options.manager == KUBECTL
    )


def _decode_new(served: ServedResource, namespace: str | None, name: str, body: bytes) -> Tree | None:
    """Returns the object in the body if it has this kind, namespace and name and sets no unusual fields, or None."""
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
    if not _SERVER_METADATA.isdisjoint(metadata) or (served.status and "status" in tree):
        return None
    return tree


def _managed_if_accepted(state: ServerState, served: ServedResource, tree: Tree, manager: str) -> DecodedObject | None:
    """Computes the manager's fields, and then sets the schema defaults, which have no owner.

    Returns None if the schema does not accept the tree as it is (an unknown field, a null, an invalid value); the tree
    must not be used then.
    """
    time = meta.write_timestamp(state) if state.now is utc_now else entry_time(state.now())
    try:
        managed = first_managed(tree, manager=manager, shape=served.shape(), time=time, api_version=served.api_version)
    except (BadPatch, RecursionError):
        return None
    schema = served.schema()
    return DecodedObject([], managed) if schema is None or schema.accepts(tree) else None


def _read(
    served: ServedResource, namespace: str | None, name: str, body: bytes, options: WriteOptions
) -> tuple[Tree, bool]:
    """Returns the applied configuration, and whether it has a name (required only to create the object).

    Raises BadRequest if it is not an object of this path.
    """
    config = _parse(body)
    if options.subresource == "scale":
        config = scale.object_from_scale(served, name, config)
    if (config.get("apiVersion"), config.get("kind")) != (served.api_version, served.kind):
        found = f"{config.get('apiVersion')} {config.get('kind')}"
        raise BadRequest(f"the applied object must be {served.api_version} {served.kind}, not {found}")
    meta.read_metadata(config)
    has_name = "name" in config["metadata"]
    check_name_and_namespace(config, namespace, name)
    return config, has_name


def _configs(first: Tree, read: Callable[[], Tree]) -> Iterator[Tree]:
    """Yields a fresh configuration for every attempt, because each attempt modifies it in place.

    Decoding the body again is cheaper than copying it every time, and retries are rare.
    """
    yield first
    while True:
        yield read()


async def _apply(
    state: ServerState,
    served: ServedResource,
    namespace: str | None,
    name: str,
    configs: Iterator[Tree],
    *,
    options: WriteOptions,
    has_name: bool,
) -> WriteResult:
    while True:
        missing = not options.subresource and await get_item(state, served.key(namespace, name)) is None
        try:
            if missing and not has_name:
                problem = f"the name of the object ({name} based on URL) was undeterminable"
                raise BadRequest(f"{problem}: name must be provided")
            if missing:
                return await _create(state, served, namespace, next(configs), options)
            change = _change(state, served, name, configs, options)
            return await guaranteed_update(state, served, namespace, name, change, options=options)
        except AlreadyExists:
            if not missing or options.dry_run:
                raise
        except NotFound:
            # Deleted between our read and our write: the next attempt creates it.
            if missing or options.subresource:
                raise


def _change(
    state: ServerState, served: ServedResource, name: str, configs: Iterator[Tree], options: WriteOptions
) -> create_and_update.Change:
    def change(old: Tree, item: Item) -> strategy.PreparedUpdate:
        merged = _merged(state, served, served_tree(served, item), next(configs), options)
        version = merged["metadata"].get("resourceVersion")
        if version != old["metadata"]["resourceVersion"]:
            raise status_errors.stale(served, name)
        return strategy.prepare_update(state, served, old, merged, options, applied=True)

    return change


async def _create(
    state: ServerState, served: ServedResource, namespace: str | None, config: Tree, options: WriteOptions
) -> WriteResult:
    name = config["metadata"]["name"]
    if options.authorizer is not None:
        options.authorizer.check_create(name)
    given = config["metadata"].get("uid")
    if given:
        problem = f"uid mismatch: the provided object specified uid {given}, and no existing object was found"
        raise status_errors.conflict(served, name, problem)
    tree = _merged(state, served, None, config, options)
    try:
        # `_read` has checked type, metadata and namespace; only kubectl's last-applied annotation is new.
        dropped = meta.read_metadata(tree) if options.manager == KUBECTL else []
        decoded = strategy.apply_schema_to_new(served, tree, options, dropped=dropped)
    except RecursionError:
        raise Undecodable("the object is nested too deeply") from None
    with create_and_update.track_create(state, served, namespace):
        await create_and_update.check_namespace(state, served, namespace, name)
        if options.admission is None:
            strategy.prepare_new(state, served, namespace, tree, decoded, options=options, applied=True)
        else:
            await write_admission.admit_create(state, served, namespace, tree, decoded, options=options, applied=True)
        return await create_and_update.store_new(state, served, namespace, tree, options)


def _merged(state: ServerState, served: ServedResource, old: Tree | None, config: Tree, options: WriteOptions) -> Tree:
    """Returns the object after the apply, with its managedFields; takes ownership of both trees."""
    try:
        applied = server_side_apply(
            old,
            config,
            manager=options.manager,
            shape=served.shape(),
            now=state.now(),
            api_version=served.api_version,
            force=options.force is True,
            subresource=options.subresource or None,
            ignore=ignored_fields(served, options.subresource),
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
            tree = None  # either YAML, or `read_text` raises the precise error
    if tree is None:
        tree = read_text(body, JSON if body[:1] == b"{" and is_json_body(body) else YAML)
    if not isinstance(tree, dict):
        raise BadRequest("an applied object must be an object")
    return cast("Tree", tree)


def _check_fields(served: ServedResource, schema: Compiled, config: Tree) -> None:
    """Raises BadRequest for fields that are not in the schema, or Invalid for nulls that the schema would drop."""
    if _is_accepted(schema, config):
        return
    defaulted = cast("Tree", copy_tree(config))
    unknown = schema.prune(defaulted)
    if unknown:
        raise BadRequest(f"the object cannot be applied: fields not declared in schema: {', '.join(unknown)}")
    if not served.custom or not _has_null(config):
        return
    # In a create or update, a null that the schema drops counts as absent; an apply would own a field without value.
    schema.default(defaulted)
    causes = [
        field_errors.type_invalid(str(path), None, "must not be null")
        for path, value in walk(config)
        if value is None and _is_absent(defaulted, path.tokens)
    ]
    if causes:
        raise status_errors.invalid(served, config["metadata"]["name"], causes)


def _is_accepted(schema: Compiled, config: Tree) -> bool:
    """Whether the schema certainly neither prunes an unknown field nor drops a null."""
    try:
        return schema.accepts(decode_tree(encode_tree(config)))  # the fastest deep copy
    except BadObject:  # YAML has values that JSON does not have
        return False


def _has_null(tree: Any) -> bool:
    """Whether the tree contains a null; a cheap check, because most objects have none."""
    pending = [tree]
    while pending:
        value = pending.pop()
        if value is None:
            return True
        if isinstance(value, dict):
            pending.extend(cast("Tree", value).values())
        elif isinstance(value, list):
            pending.extend(value)  # pyright: ignore[reportUnknownArgumentType] - a JSON tree
    return False


def _is_absent(tree: Any, tokens: Iterable[str | int]) -> bool:
    try:
        for token in tokens:
            tree = tree[token]
    except (KeyError, IndexError, TypeError):
        return True
    return False
