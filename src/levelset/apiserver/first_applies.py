"""The apply that creates an object, at once: what a controller does for each of its children, without a detour.

An apply is written for the object that may be there, and for whoever must be waited for. Where there is none and
nobody waits, all that is applied becomes the object: it is read once, judged once, and written. Whatever is not as
plain as that is left to `applying`, which begins again from the body; nothing has happened by then.
"""

from typing import Final

from levelset.apiserver import metadata as meta
from levelset.apiserver import strategy, writing
from levelset.apiserver.decoding import Decoded
from levelset.apiserver.options import WriteOptions
from levelset.apiserver.served import Served
from levelset.apiserver.world import Tree, World, utc_now
from levelset.apiserver.writing import Written
from levelset.errors import BadObject, BadPatch
from levelset.objects import decode_tree
from levelset.patch.apply import first_managed
from levelset.patch.managers import entry_time
from levelset.patch.migration import KUBECTL
from levelset.storage import Mismatch

__all__ = ["create_applied"]

# What a new object may not say about itself.
_UNUSUAL: Final = frozenset({"managedFields", "resourceVersion", "uid"})


def create_applied(
    world: World, served: Served, namespace: str | None, name: str, body: bytes, *, options: WriteOptions
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
    tree = _read(served, namespace, name, body)
    decoded = None if tree is None else _accepted(world, served, tree, options.manager)
    if tree is None or decoded is None:
        return None
    writing.check_home_nowait(reader, served, namespace, name)
    strategy.own_new(world, served, namespace, tree, decoded, options=options, applied=True)
    strategy.judge_new(world, served, tree, decoded.causes)
    try:
        return writing.store_new_nowait(world, writer, served, key, tree)
    except Mismatch:  # somebody who was asked to judge it has made it
        return None


def _is_plain(served: Served, options: WriteOptions) -> bool:
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


def _read(served: Served, namespace: str | None, name: str, body: bytes) -> Tree | None:
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


def _accepted(world: World, served: Served, tree: Tree, manager: str) -> Decoded | None:
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
