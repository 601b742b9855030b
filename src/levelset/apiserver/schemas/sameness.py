"""Whether a value is what it was before, as its schema sees it: keyed lists have no order."""

from levelset.apiserver.schemas.nodes import Node, Tree, as_list, as_map
from levelset.apiserver.schemas.pruning import Resolve
from levelset.apiserver.schemas.trees import same
from levelset.apiserver.schemas.uniqueness import identity, key_of

__all__ = ["is_unchanged"]


def is_unchanged(resolve: Resolve, node: Node | None, tree: Tree, old: Tree) -> bool:
    """Whether both are one value; without a schema (None), order always counts."""
    if node is None:
        return same(tree, old)
    node = resolve(node)
    new_members, old_members = as_map(tree), as_map(old)
    if new_members is not None and old_members is not None:
        return new_members.keys() == old_members.keys() and all(
            is_unchanged(resolve, node.child(name), value, old_members[name]) for name, value in new_members.items()
        )
    new_items, old_items = as_list(tree), as_list(old)
    if new_items is None or old_items is None:
        return same(tree, old)
    if len(new_items) != len(old_items):
        return False
    if node.list_type == "map":
        former = {identity(key_of(node, one)): one for one in old_items}
        keys = [identity(key_of(node, one)) for one in new_items]
        if len(former) == len(old_items):
            return set(keys) == former.keys() and all(
                is_unchanged(resolve, node.items, one, former[key]) for key, one in zip(keys, new_items, strict=True)
            )
    # Also a keyed list whose keys do not tell its items apart: it may be older than its schema.
    return all(is_unchanged(resolve, node.items, one, other) for one, other in zip(new_items, old_items, strict=True))
