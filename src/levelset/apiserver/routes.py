"""Where requests go, remembered: clients ask for the same paths again, or for others that differ in a name only."""

from typing import Final

import msgspec

from levelset.apiserver.addresses import Address
from levelset.apiserver.handlers import Action
from levelset.apiserver.served import Served

__all__ = ["Route", "Routes"]

_MOST_KEPT: Final = 4096
_LONGEST_KEPT: Final = 512
_NO_NAMES: Final = frozenset({"", ".", ".."})


class Route(msgspec.Struct, frozen=True, eq=False):
    """Where requests with one method and path go, as long as the catalog stays as it is."""

    address: Address
    served: Served
    action: Action | None
    """None if it has to be found for each request anew."""


class Routes:
    """The routes of paths that were asked for, and of the others that differ from them in the name of the object only.

    The parts of a path decide together what each of them means, and none does so by being the name of an object: with
    another name in its place the address is the same but for that name, and the action, which goes by method and
    address, is the same too. Names that must be decoded, or are none, are left to those who read paths.
    """

    __slots__ = ("_alike", "known")

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], Route] = {}
        """By method and path, exactly."""
        self._alike: dict[tuple[str, str, str], Route] = {}
        """By method, what precedes the name, and what follows it: nothing, or a subresource."""

    def __len__(self) -> int:
        return max(len(self.known), len(self._alike))

    def clear(self) -> None:
        """Forgets everything: what is served has changed."""
        self.known.clear()
        self._alike.clear()

    def keep(self, method: str, path: str, route: Route) -> Route:
        """Remembers the route of a path, and gives it."""
        address = route.address
        if len(path) < _LONGEST_KEPT:
            if len(self.known) >= _MOST_KEPT:
                self.known.clear()
            self.known[method, path] = route
            if address.name is not None and not address.watch:
                ending = f"/{address.subresource}" if address.subresource else ""
                before, _, name = path.removesuffix(ending).rpartition("/")
                # Neither is so for a path with an encoded name, or with a slash too many.
                if name == address.name and path.endswith(f"{name}{ending}"):
                    if len(self._alike) >= _MOST_KEPT:
                        self._alike.clear()
                    self._alike[method, before, address.subresource] = route
        return route

    def find_alike(self, method: str, path: str) -> Route | None:
        """The route of a path that was not asked for before, if one that differs from it in the name only was."""
        before, _, name = path.rpartition("/")
        alike = self._alike.get((method, before, ""))
        if alike is None:
            before, _, last = before.rpartition("/")
            alike, name = self._alike.get((method, before, name)), last
        if alike is None or name in _NO_NAMES or "%" in name or len(path) >= _LONGEST_KEPT:
            return None
        one = alike.address
        address = Address(one.group, one.version, one.plural, one.namespace, name, one.subresource)
        route = Route(address, alike.served, alike.action)
        known = self.known
        if len(known) >= _MOST_KEPT:
            known.clear()
        known[method, path] = route
        return route
