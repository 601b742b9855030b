"""Laying an applied object over the live one: the merge of server-side apply, in which nothing is taken away."""

from collections.abc import Iterator

from levelset.objects.trees import Tree
from levelset.patch.alike import alike
from levelset.patch.elements import list_elements
from levelset.patch.shapes import Shape

__all__ = ["overlay"]


def overlay(live: Tree, config: Tree, shape: Shape) -> Tree:
    """The live value with everything that `config` specifies laid over it, member by member as the shape allows.

    What does not change is shared with `live`; if nothing does, the result is `live` itself. A null leaves a map or
    a list that has members alone, and replaces anything else.
    """
    if isinstance(live, dict) and isinstance(config, dict) and not shape.atomic:
        return _overlaid_map(live, config, shape)
    if isinstance(live, list) and isinstance(config, list):
        if alike(live, config):
            return live
        here = list_elements(live, shape)
        there = list_elements(config, shape)
        if here is not None and there is not None:
            return _overlaid_list((live, here), (config, there), shape.item())
    if config is None and live and _has_members(live, shape):
        return live
    return live if alike(live, config) else config


def _has_members(live: Tree, shape: Shape) -> bool:
    if isinstance(live, dict):
        return not shape.atomic
    return isinstance(live, list) and list_elements(live, shape) is not None


def _overlaid_map(live: dict[str, Tree], config: dict[str, Tree], shape: Shape) -> dict[str, Tree]:
    out = live
    for name, wanted in config.items():
        if name in live:
            found = live[name]
            # Two texts, which are most, need no call: the wanted one wins.
            is_text = found.__class__ is str and wanted.__class__ is str
            if is_text and found == wanted:
                continue
            merged = wanted if is_text else overlay(found, wanted, shape.member(name))
            if merged is found:
                continue
        else:
            merged = wanted
        out = dict(live) if out is live else out
        out[name] = merged
    return out


_Items = tuple[list[Tree], list[str]]


def _overlaid_list(live: _Items, config: _Items, shape: Shape) -> list[Tree]:
    here = _unique(live)
    there = dict(zip(config[1], config[0], strict=True))
    out: list[Tree] = []
    for element, position in _order(live[1], config[1]):
        if position is not None:
            out.append(live[0][position])
        elif element in here:
            out.append(overlay(here[element], there[element], shape))
        else:
            out.append(there[element])
    same = len(out) == len(live[0]) and all(one is other for one, other in zip(out, live[0], strict=True))
    return live[0] if same else out


def _unique(live: _Items) -> dict[str, Tree]:
    """The live items by element; items that share one element are left to the config alone."""
    items: dict[str, Tree] = {}
    for entry, element in zip(*live, strict=True):
        items[element] = None if element in items else entry
    return items


def _order(live: list[str], config: list[str]) -> Iterator[tuple[str, int | None]]:
    """The elements of the merged list in order, with their live position if the live item is taken as it is.

    Elements of the config come in the config's order. A live item that the config does not mention stays where it
    was: after what preceded it, before the config's items that are new at this place. A live item that the config
    mentions moves to where the config has it, unless the config's next item is the next live one anyway.
    """
    mentioned, known = set(config), set(live)
    # The config's elements that are live too, last first: the one at the end is the next to be placed.
    shared = [element for element in reversed(config) if element in known]
    placed: set[str] = set()
    here = there = 0
    while here < len(live) or there < len(config):
        if here < len(live):
            element = live[here]
            if element not in mentioned:
                yield element, here
                here += 1
                continue
            if there < len(config) and element != config[there] and shared and element != shared[-1]:
                here += 1
                continue
            if element in placed:
                here += 1
                if there == len(config):
                    continue
        if there < len(config):
            wanted = config[there]
            yield wanted, None
            placed.add(wanted)
            there += 1
            if shared and shared[-1] == wanted:
                shared.pop()
            if here < len(live) and live[here] == wanted:
                here += 1
