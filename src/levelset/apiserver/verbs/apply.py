"""Server-side apply: creates an object, or merges the applied configuration of a manager into the existing one."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, cast

import msgspec

from levelset.apiserver.registry import metadata as meta
from levelset.apiserver.registry import strategy
from levelset.apiserver.registry.builtin.written_members import may_need_narrowing, narrow_integers
from levelset.apiserver.registry.object_decoder import DecodedObject, check_name_and_namespace
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.registry.strategy import ignored_fields
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.apiserver.schema import Compiled, field_errors
from levelset.apiserver.schema.builtin_schemas import builtin_kind
from levelset.apiserver.schema.formats import INT64, text_format
from levelset.apiserver.verbs.create_and_update import (
    WriteResult,
    check_resource_version,
    check_version_number,
    create,
    guaranteed_update,
)
from levelset.apiserver.verbs.subresources import scale
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.large_bodies import is_json_body
from levelset.apiserver.wire.negotiation import JSON, YAML, read_text
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.apiserver.wire.status_errors import Undecodable
from levelset.apiserver.wire.step_limits import run_limited
from levelset.errors import (
    AlreadyExists,
    ApiError,
    ApplyConflict,
    BadObject,
    BadPatch,
    BadRequest,
    BadTime,
    NotFound,
)
from levelset.objects import decode_tree, encode_tree
from levelset.objects.json_tree import copy_tree, is_list, is_map, walk
from levelset.objects.lazy_pattern import Pattern
from levelset.patch import ANYTHING, Shape, server_side_apply
from levelset.patch.apply import create_applied, overlay
from levelset.patch.last_applied import KUBECTL
from levelset.storage import Item

__all__ = ["apply"]

_FLOATS: Final = Pattern(rb"[0-9][.eE]")
_MAY_BE_EMPTY: Final = (
    *(
        "namespace",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
        "generateName",
        "selfLink",
        "uid",
        "resourceVersion",
    ),
    *("generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
)


async def apply(
    state: ServerState, served: ServedResource, namespace: str | None, name: str, body: bytes, *, options: WriteOptions
) -> WriteResult:
    """Applies the YAML or JSON body; creates the object if it does not exist, except for a subresource.

    Raises Invalid without a manager, BadRequest for a body that cannot be applied here, ApplyConflict.
    """
    if not options.has_manager:
        cause = field_errors.required("fieldManager", "is required for apply patch")
        raise status_errors.invalid_options("PatchOptions", [cause])
    request = _ApplyRequest(state, served, namespace, name, body, options)
    key, is_limited = served.key(namespace, name), options.is_large or served.has_programs
    while True:
        missing = not options.subresource and state.reader.get_nowait(key) is None
        try:
            if missing:
                decode = request.decode_new
                work = run_limited(state.expensive_work, decode, is_large=options.is_large) if is_limited else None
                tree, decoded = decode() if work is None else await work
                return await request.create(tree, decoded)
            written = await guaranteed_update(state, served, namespace, name, request.change, options=options)
            return scale.as_scale(served, written) if options.subresource == "scale" else written
        except AlreadyExists:
            if not missing or options.dry_run:
                raise
        except NotFound:
            # Deleted between our read and our write: the next attempt creates it.
            if missing or options.subresource:
                raise
        except _Untyped as error:
            raise request.typed_error(error) from error


class _Untyped(ApiError):
    """500, as upstream: the applied configuration is none of its kind, because of types, undeclared fields or keys."""

    def __init__(
        self,
        served: ServedResource,
        metadata: Tree,
        problem: str,
        *,
        failed: str = "create typed patch object",
        suffix: str = "",
    ) -> None:
        namespace, name = _text(metadata, "namespace"), _text(metadata, "name")
        named = f"{namespace}/{name}; {served.group}/{served.version}, Kind={served.kind}"
        super().__init__(f"failed to {failed} ({named}){suffix}: {problem}", code=500, reason="")


class _ApplyRequest(msgspec.Struct, eq=False):
    """One apply: the configuration in its body, and what it is applied to.

    Each attempt modifies the configuration in place. Decoding the body again is cheaper than copying it every time, and
    retries are rare.

    A field that is not in the schema is an error, as is a null that the schema would drop. Both are looked for only if
    the schema does not accept the resulting object as it is, or does not see all of the configuration in it.
    """

    state: ServerState
    served: ServedResource
    namespace: str | None
    name: str
    body: bytes
    options: WriteOptions
    has_name: bool = False
    has_bad_time: bool = False
    """Whether the time of creation is none, which is found only when the result is converted."""
    repeated: list[str] = []
    """The keys that the YAML body repeats, by line: reported only if the configuration can be applied."""

    def check_fields(self) -> None:
        """Raises as `check_types`, or Invalid for nulls that the schema would drop."""
        self.check_types()
        self.check_nulls()

    def check_types(self) -> None:
        """Raises 500 for fields that are not in the schema, or have another type."""
        schema = self._schema()
        if schema is not None:
            config = self._read()
            errors = [] if _is_accepted(schema, config) else schema.typed_errors(config, self._shape())
            if errors:
                _check_types(self.served, schema, config)
                raise _Untyped(self.served, config["metadata"], _listed(errors))

    def _check_all_types(self) -> None:
        """As `check_types`, and raises 500 also for what no schema refuses: lists and maps in place of quantities."""
        self.check_types()
        schema, config = self._schema(), self._read()
        errors = schema.typed_errors(config, self._shape()) if schema is not None else []
        if errors:
            raise _Untyped(self.served, config["metadata"], _listed(errors))

    def _check_path(self, config: Tree) -> None:
        """Raises BadRequest for another name or namespace than those of the path; as upstream, after all types."""
        try:
            check_name_and_namespace(config, self.namespace, self.name)
        except BadRequest:
            self._check_all_types()
            raise

    def check_nulls(self, live: Tree | None = None) -> None:
        """Raises Invalid for nulls that the schema would drop.

        With `live`, the configuration is merged into this object, which is invalid with the nulls.
        """
        schema = self._schema()
        if schema is not None and self.served.custom and self.options.subresource != "scale":
            config = self._read()
            if _has_null(config):
                is_status_ignored = self.served.status and not self.options.subresource
                _check_nulls(self.served, schema, config, live, is_status_ignored=is_status_ignored)

    def _schema(self) -> Compiled | None:
        is_scale = self.options.subresource == "scale"
        return builtin_kind("autoscaling", "v1", "Scale") if is_scale else self.served.schema()

    def _shape(self) -> Shape:
        return ANYTHING if self.options.subresource == "scale" else self.served.shape()  # a Scale has no lists

    def typed_error(self, error: "_Untyped") -> ApiError:
        """The error with all that is wrong with the types of the configuration; `error` knows only the first."""
        schema = self._schema()
        config = read_text(self.body, JSON if is_json_body(self.body) else YAML, [])
        errors = schema.typed_errors(config, self._shape()) if schema is not None and is_map(config) else []
        if errors:
            metadata: Any = config.get("metadata")
            error = _Untyped(self.served, metadata if is_map(metadata) else {}, _listed(errors))
        return ApiError(error.message, code=error.code, reason="")

    def change(self, old: Tree, item: Item) -> strategy.PreparedUpdate:
        """Merges the configuration into the object; a `Change` of `guaranteed_update`."""
        options, served = self.options, self.served
        config = self._read()
        if options.subresource == "scale":
            return self._change_scale(old, item, config)
        is_status_ignored = served.status and "status" in config
        live = served_tree(served, item)
        is_ignored = is_status_ignored or bool(served.rules.unowned)
        is_unusual = not self.body.startswith(b"{") or b"null" in self.body
        is_first = not live["metadata"].get("managedFields")
        if is_first and served.custom:
            self._check_live(live)
        if is_ignored or options.subresource or is_unusual:
            self.check_types()
        try:
            merged: Tree = server_side_apply(
                strategy.trackable_content(served, live) if is_first else live,
                config,
                manager=options.manager,
                shape=served.shape(),
                now=meta.write_timestamp(self.state),
                api_version=served.api_version,
                force=options.force is True,
                subresource=options.subresource or None,
                ignore=ignored_fields(served, options.subresource),
            ).object
            if is_first:
                strategy.finish_first_apply(served, live, config, merged, manager=options.manager)
        except ApplyConflict:
            self._check_all_types()  # its errors come first
            raise
        except BadPatch as error:
            self.check_types()
            raise _untyped(served, config["metadata"], error) from error
        self._narrow(merged)
        self._set_prefix(merged, config)
        self._report_repeated()
        check = self.check_fields
        try:
            self._check_time(config)
            self._check_path(config)
            self._check_version(old, merged, config)
            if is_unusual:
                self.check_nulls(live)
            if (is_ignored or options.subresource) and not served.custom:
                self._narrow(config)
                strategy.decode_ignored(served, old, config, options)
            return strategy.prepare_update(self.state, served, old, merged, options, applied=True, check=check)
        except Undecodable as error:
            if not served.custom:
                options.warnings.clear()  # as upstream: they are about objects that can be decoded
            raise _inconvertible(served, config["metadata"], error) from error

    def _set_prefix(self, merged: Tree, config: Tree) -> None:
        """Sets the `generateName` that was applied to a status which ignores metadata: as upstream, it remains."""
        if self.options.subresource == "status" and self.served.rules.preserved_by_status == "content":
            applied = config["metadata"].get("generateName")
            if applied:
                merged["metadata"] = {**merged["metadata"], "generateName": applied}

    def _check_live(self, live: Tree) -> None:
        """Raises 500 for an object whose fields cannot have an owner: it has values of other types than its schema."""
        schema = self._schema()
        if schema is None or self.options.subresource == "scale" or schema.first_mismatch(live) is None:
            return
        problem = _listed(schema.typed_errors(live, self.served.shape()))
        failed = "create manager for existing fields: failed to convert new object"
        error = _Untyped(self.served, live["metadata"], problem, failed=failed, suffix=" to smd typed")
        raise ApiError(error.message, code=error.code, reason="")

    def _check_version(self, old: Tree, merged: Tree, config: Tree) -> None:
        """Raises Invalid or Conflict for a resourceVersion that is not the stored one, which may be an empty one."""
        if "resourceVersion" not in config["metadata"]:
            return
        version = config["metadata"]["resourceVersion"] or ""
        if version == old["metadata"]["resourceVersion"]:
            return
        self.check_types()
        try:
            check_resource_version(self.served, self.name, version, old)
        except ApiError:  # as upstream, which converts the object before it compares versions
            namespace = old["metadata"].get("namespace")
            strategy.decode_replacement(self.served, namespace, self.name, merged, self.options)
            raise

    def _change_scale(self, old: Tree, item: Item, config: Tree) -> strategy.PreparedUpdate:
        """As `change`, for a configuration that is a Scale."""
        self.check_fields()
        self._report_repeated()
        try:
            return scale.apply_scale(self.state, self.served, old, item, config=config, options=self.options)
        except BadPatch as error:
            raise _untyped(self.served, config["metadata"], error) from error
        except Undecodable as error:
            raise _inconvertible(self.served, config["metadata"], error) from error

    def decode_new(self) -> tuple[Tree, DecodedObject]:
        """Returns the object that the configuration creates, decoded; raises as `check_fields`, Forbidden, Conflict."""
        served, name, options = self.served, self.name, self.options
        config = self._read()
        try:
            if served.status and "status" in config:
                self.check_fields()  # all of them: the new object will have no status
                if not served.custom:
                    ignored_config = self._read()
                    self._narrow(ignored_config)
                    strategy.decode_ignored(served, {}, ignored_config, options)
            tree = create_applied(
                config,
                manager=options.manager,
                shape=served.shape(),
                time=meta.write_timestamp(self.state),
                api_version=served.api_version,
                ignore=ignored_fields(served, ""),
            )
            ignored = (*served.rules.unowned, "status") if served.rules.status_on_create else served.rules.unowned
            tree |= {name: config[name] for name in ignored if name in config}
            self._narrow(tree)
            # `_read` has checked type, metadata and namespace; what is new are kubectl's last-applied annotation, and
            # the empty members.
            is_read = options.manager != KUBECTL and not _empty_members(tree["metadata"])
            dropped = [] if is_read else meta.read_metadata(tree)
            if "resourceVersion" in tree["metadata"] and not tree["metadata"].get("uid"):  # which cannot match
                self.check_fields()  # its errors come first
                check_version_number(tree["metadata"]["resourceVersion"])
            decoded = strategy.apply_schema_to_new(served, tree, options, dropped=dropped, check=self.check_fields)
            self._check_time(config)
        except BadPatch as error:
            raise _untyped(served, config["metadata"], error) from error
        except Undecodable as error:
            if not served.custom:
                options.warnings.clear()
            raise _inconvertible(served, config["metadata"], error) from error
        except RecursionError:
            raise Undecodable("the object is nested too deeply") from None
        self._report_repeated()
        self._check_uid(tree)
        self._check_path(config)
        if not self.has_name:
            problem = f"the name of the object ({name} based on URL) was undeterminable"
            raise BadRequest(f"{problem}: name must be provided")
        if options.authorizer is not None:
            options.authorizer.check_create(name)
        return tree, decoded

    def _check_uid(self, tree: Tree) -> None:
        """Raises Conflict for a new object with a uid: it is of one that is gone."""
        given = tree["metadata"].get("uid")
        if not given:
            return
        try:
            if self.served.rules.default is not None:
                self.served.rules.default(cast("Tree", copy_tree(tree)))  # which reads the times
        except BadTime as error:  # as upstream, which converts the object first
            raise _inconvertible(self.served, tree["metadata"], Undecodable(str(error))) from error
        problem = f"uid mismatch: the provided object specified uid {given}, and no existing object was found"
        raise status_errors.conflict(self.served, self.name, problem)

    async def create(self, tree: Tree, decoded: DecodedObject) -> WriteResult:
        """Creates the decoded object."""
        try:
            return await create(self.state, self.served, self.namespace, tree, self.options, applied=decoded)
        except Undecodable as error:  # by the rules of its kind
            raise _inconvertible(self.served, tree["metadata"], error) from error

    def _read(self) -> Tree:
        """Returns the applied configuration; raises BadRequest if it is not an object of this path."""
        served, config = self.served, self._decode()
        if config.__class__ is not dict:
            raise BadRequest("an applied object must be an object")
        version, kind = served.api_version, served.kind
        if self.options.subresource == "scale":
            self._check_scale(config)
            version, kind = scale.API_VERSION, scale.KIND
        if config.get("apiVersion") != version or config.get("kind") != kind:
            raise BadRequest(f"invalid object type: {_type_of(config)}")
        metadata: Any = config.get("metadata")
        managed = metadata.get("managedFields") if is_map(metadata) else None
        if is_list(managed) and all(map(is_map, managed)):  # as upstream, which takes none from another value
            raise BadRequest("metadata.managedFields must be nil")
        self._drop_bad_time(metadata)
        empty = _empty_members(metadata)
        try:
            unknown = meta.read_metadata(config)
            if unknown:
                raise _undeclared(served, config["metadata"], unknown)
        except Undecodable as error:
            known: Tree = metadata if is_map(metadata) else {}
            raise _untyped(served, known, BadPatch(str(error), field="metadata")) from error
        config["metadata"].update(empty)
        self.has_name = "name" in config["metadata"]
        config["metadata"].setdefault("name", self.name)
        if self.options.subresource == "scale":
            check_name_and_namespace(config, self.namespace, self.name)
        checked: Tree = config
        return checked

    def _narrow(self, tree: Tree) -> None:
        """Keeps the low bits of integers, in place: as upstream, only when the result is converted."""
        served = self.served
        if not served.custom and self.options.subresource != "scale" and may_need_narrowing(self.body):
            narrow_integers(served.group, served.version, served.kind, tree)

    def _decode(self) -> Any:
        """The body as data, from JSON or YAML."""
        body, config = self.body, None
        is_like_json = body.startswith(b"{")
        if is_like_json:
            with suppress(BadObject):  # either YAML, or `read_text` raises the precise error
                config = decode_tree(body)
        if config is None:
            repeated: list[str] = []
            config = read_text(body, JSON if is_like_json and is_json_body(body) else YAML, repeated)
            self.repeated = repeated
        return _with_integers(config) if _FLOATS.search(body) else config

    def _drop_bad_time(self, metadata: Any) -> None:
        created, check = metadata.get("creationTimestamp") if is_map(metadata) else None, text_format("date-time")
        if isinstance(created, str) and check is not None and not check(created):
            metadata["creationTimestamp"] = None  # another value than that of the live object
            self.has_bad_time = not self.served.custom  # as upstream, which never reads that of a custom resource

    def _check_time(self, config: Tree) -> None:
        if self.has_bad_time:
            problem = Undecodable("metadata.creationTimestamp is not a time as in RFC 3339")
            raise _inconvertible(self.served, config["metadata"], problem)

    def _check_scale(self, config: Tree) -> None:
        try:
            scale.check_applied_scale(self.namespace, self.name, config)
        except BadPatch as error:
            raise _untyped(self.served, {"name": self.name}, error) from error

    def _report_repeated(self) -> None:
        """Warns about repeated keys of a YAML body, or raises BadRequest, as the request says."""
        lines = self.repeated
        if lines and self.options.validation == "Strict":
            problem = "\n  ".join(["error converting YAML to JSON: yaml: unmarshal errors:", *lines])
            raise BadRequest(f"error strict decoding YAML: {problem}")
        if self.options.validation != "Ignore":
            self.options.warnings.extend([one for one in lines if one not in self.options.warnings])


def _with_integers(value: Any) -> Any:
    """The value with whole floats as integers: as upstream, which reads a configuration as YAML, and so writes them."""
    if is_map(value):
        return {name: _with_integers(one) for name, one in value.items()}
    if is_list(value):
        return [_with_integers(one) for one in value]
    is_whole = isinstance(value, float) and value.is_integer() and INT64[0] <= value <= INT64[1]
    return int(value) if is_whole else value


def _type_of(config: Tree) -> str:
    """The apiVersion and kind as upstream prints them, which reads a text only, and no kind beside a bad version."""
    group, _, version = _text(config, "apiVersion").rpartition("/")
    return "/, Kind=" if "/" in group else f"{group}/{version}, Kind={_text(config, 'kind')}"


def _text(tree: Tree, name: str) -> str:
    value = tree.get(name)
    return value if isinstance(value, str) else ""


def _empty_members(metadata: Any) -> Tree:
    """The empty members of applied metadata: the manager owns them, although the object does not have them."""
    if not is_map(metadata):
        return {}
    return {name: metadata[name] for name in _MAY_BE_EMPTY if name in metadata and not metadata[name]}


def _untyped(served: ServedResource, metadata: Tree, error: BadPatch) -> ApiError:
    """500, as upstream: the applied object is not of its kind, because of duplicate or missing keys of a list."""
    if error.field is None or error.field.startswith(("apiVersion", "metadata.managedFields")):
        return BadRequest(f"the object cannot be applied: {error}")
    return _Untyped(served, metadata, str(error))


def _inconvertible(served: ServedResource, metadata: Tree, error: Undecodable) -> ApiError:
    """500, as upstream: the result of an apply is not an object of its kind; 400 for a strict request."""
    if "strict decoding error" in str(error):
        return error
    if served.custom:  # an embedded object has no metadata of its type
        return _untyped(served, metadata, BadPatch(str(error), field="spec"))
    return _Untyped(served, metadata, str(error), failed="convert new object", suffix=" to proper version")


def _check_types(served: ServedResource, schema: Compiled, config: Tree) -> None:
    defaulted = cast("Tree", copy_tree(config))
    unknown = schema.prune(defaulted)
    if unknown:
        raise _undeclared(served, config["metadata"], unknown)
    wrong = schema.first_mismatch(defaulted)
    if wrong is not None:
        problem = f".{wrong.field}: {wrong.message}"
        raise _untyped(served, config["metadata"], BadPatch(problem, field=wrong.field))


def _check_nulls(
    served: ServedResource, schema: Compiled, config: Tree, live: Tree | None, *, is_status_ignored: bool
) -> None:
    defaulted = cast("Tree", copy_tree(config))
    schema.prune(defaulted)
    # In a create or update, a null that the schema drops counts as absent; an apply would own a field without value.
    schema.default(defaulted)
    # Nulls of a status are of no concern in a write that ignores it.
    nulls = [path.tokens for path, value in walk(config) if value is None]
    dropped = [one for one in nulls if _is_absent(defaulted, one) and not (is_status_ignored and one[0] == "status")]
    if not dropped:
        return
    merged = cast("Tree", copy_tree(config if live is None else overlay(live, config, served.shape())))
    tree = cast("Tree", copy_tree(merged))
    schema.default(tree)
    for tokens in dropped:
        _set_null(tree, merged, tokens)
    causes = [one for one in schema.validate(tree) if not one.field.startswith("metadata")]
    if causes and served.rules.expressions is not None:
        causes += served.rules.expressions(tree, None, causes)
    if causes:
        raise status_errors.invalid(served, config["metadata"]["name"], causes)


def _set_null(tree: Any, merged: Any, tokens: tuple[str | int, ...]) -> None:
    """Puts a null back that was dropped from the tree, if the merged object has it there."""
    try:
        for token in tokens[:-1]:
            tree, merged = tree[token], merged[token]
        if merged[tokens[-1]] is None:
            tree[tokens[-1]] = None
    except (KeyError, IndexError, TypeError):
        return


def _undeclared(served: ServedResource, metadata: Tree, unknown: list[str]) -> ApiError:
    """500, as upstream: the applied object has fields that its schema does not have."""
    problems = [f".{path}: field not declared in schema" for path in unknown]
    return _Untyped(served, metadata, _listed(problems))


def _listed(problems: list[str]) -> str:
    return problems[0] if len(problems) == 1 else "\n  ".join(["errors:", *problems[: status_errors.MAX_CAUSES]])


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
