"""Makes kinds known to a server inside a test, without asking it for anything: what it serves can be seen."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from levelset.client.client import Client
from levelset.client.kinds import View, view_of
from levelset.errors import ConfigError
from levelset.manager.definitions import definitions_for
from levelset.objects import codec
from levelset.objects.definition import definition_of
from levelset.objects.resource import Object
from levelset.testing.inside import Inside

__all__ = ["CustomResourceDefinition", "define_inside"]


class CustomResourceDefinition(Object, api="apiextensions.k8s.io/v1", scope="Cluster"):
    """What makes a server know a kind."""

    spec: dict[str, Any] = {}


async def define_inside(inside: Inside, control: Client, views: Iterable[View[Any]]) -> Sequence[str]:
    """Has the server serve these kinds, as far as it does not yet; gives the names of what was made.

    ConfigError if it does not serve one although it has a definition for it: another kind may have taken its names.
    """
    catalog = inside.server.world.catalog
    missing = tuple(one.class_ for one in views if one.definition is not None and catalog.by_gvk(*one.gvk) is None)
    made = _definitions(missing)
    for tree in made.values():
        await control.create(codec.decode(CustomResourceDefinition, tree))
    if made:
        await inside.server.idle()
    for one in missing:
        gvk = definition_of(one).gvk
        if catalog.by_gvk(*gvk) is None:
            raise ConfigError(f"{gvk} is not served although there is a definition for it; look at its status")
    return tuple(made)


@lru_cache(maxsize=256)  # every test defines the same kinds anew
def _definitions(classes: tuple[type[Any], ...]) -> Mapping[str, bytes]:
    return {name: codec.encode_tree(tree) for name, tree in definitions_for(map(view_of, classes)).items()}
