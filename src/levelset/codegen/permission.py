"""`Permission`: verbs on a resource, as a project declares them; what infers them takes longer to load."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from levelset.errors import ConfigError

__all__ = ["Permission"]


@dataclass(frozen=True, slots=True, init=False)
class Permission:
    """Verbs on a resource: `Permission("apps", "deployments", ["delete"])`.

    `resource` may include a subresource, as in `deployments/scale`. `names` limits it to objects of these names,
    `namespace` to one namespace. `why` is the reason. A `rarely` used permission (after a conflict, for example) is not
    reported as unused.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()
    namespace: str | None = None
    why: str = ""
    rarely: bool = False

    def __init__(
        self,
        group: str,
        resource: str,
        verbs: Iterable[str],
        *,
        names: Iterable[str] = (),
        namespace: str | None = None,
        why: str = "",
        rarely: bool = False,
    ) -> None:
        if isinstance(verbs, str) or isinstance(names, str):
            raise ConfigError(f"Permission({resource!r}): verbs and names are lists: write ['get', 'list']")
        values: dict[str, Any] = {"group": group, "resource": resource, "verbs": tuple(verbs), "names": tuple(names)}
        for name, value in {**values, "namespace": namespace, "why": why, "rarely": rarely}.items():
            object.__setattr__(self, name, value)
        if not self.resource or not self.verbs:
            raise ConfigError(f"Permission({group!r}, {resource!r}): resource and verbs must not be empty")

    def __str__(self) -> str:
        group = f".{self.group}" if self.group else ""
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{', '.join(self.verbs)} {self.resource}{group}{where}"

    def allows(self, verb: str, group: str, resource: str, name: str, namespace: str | None) -> bool:
        """Whether it allows this request."""
        return (
            (verb in self.verbs or "*" in self.verbs)
            and self.group in (group, "*")
            and self.resource in (resource, "*")
            and (not self.names or name in self.names)
            and self.namespace in (None, namespace)
        )
