"""The installation of an operator as one value: its CRDs, permissions, webhooks and workload settings."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from levelset.client.object_types import Kind, OnlyMetadata, view_of
from levelset.codegen.crd import crds_of
from levelset.codegen.rbac import Permission, infer_permissions
from levelset.errors import ConfigError
from levelset.objects.resource import Object
from levelset.runtime.controller.controller import Controller
from levelset.runtime.controller.relations import Owns, References, Watches
from levelset.runtime.webhook.client_config import SERVICE_VARIABLE, Service
from levelset.runtime.webhook.conversion import Conversions
from levelset.runtime.webhook.registration import configurations, conversion_patches
from levelset.runtime.webhook.registration import permissions as webhook_rules
from levelset.runtime.webhook.webhook_set import Webhook, Webhooks

__all__ = ["Installation", "installation_of"]

_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,51}[a-z0-9])?")
_RESOURCES: Final = {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """The input of all manifest generators.

    `command` and `arguments` start the operator in its image; by default the arguments are those of a program that
    calls `run`, with leader election if there is a `lease`, and shared objects if there are `shards`. It serves health
    and metrics on `health_port` of all addresses, and webhooks, if any, on `webhook_port`.
    """

    name: str
    image: str
    namespace: str = ""
    """The namespace of the operator; `NAME-system` unless given."""
    version: str = "0.1.0"
    description: str = ""
    definitions: Sequence[Mapping[str, Any]] = ()
    permissions: Sequence[Permission] = ()
    webhooks: Sequence[Mapping[str, Any]] = ()
    """The webhook configurations."""
    command: Sequence[str] = ()
    arguments: Sequence[str] | None = None
    environment: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    replicas: int = 1
    lease: str | None = None
    """The Lease by which the replicas elect a leader; None: all of them reconcile."""
    shards: str | None = None
    """The name by which the replicas share the objects; None: they do not."""
    health_port: int = 8081
    webhook_port: int = 9443
    resources: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=lambda: dict(_RESOURCES))

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.name) is None:
            raise ConfigError(f"Installation(name={self.name!r}): at most 53 of a-z, 0-9 and -, a letter first")
        if self.replicas < 1:
            raise ConfigError(f"Installation(replicas={self.replicas}): at least one")
        if not self.namespace:
            msgspec.structs.force_setattr(self, "namespace", f"{self.name}-system")
        if self.arguments is None:
            election = () if self.lease is None else (f"--leader={self.lease}",)
            shards = () if self.shards is None else (f"--shards={self.shards}",)
            usual = (f"--health=0.0.0.0:{self.health_port}", "--log-json")
            msgspec.structs.force_setattr(self, "arguments", (*usual, *election, *shards))

    @property
    def labels(self) -> dict[str, str]:
        """The labels of all its objects."""
        return {**self.selector, "app.kubernetes.io/managed-by": "levelset"}

    @property
    def selector(self) -> dict[str, str]:
        """The label selector of its Pods."""
        return {"app.kubernetes.io/name": self.name}

    @property
    def has_webhooks(self) -> bool:
        """Whether it has admission or conversion webhooks."""
        return bool(self.webhooks) or any("conversion" in one["spec"] for one in self.definitions)


def installation_of(
    controllers: Iterable[Controller[Any]],
    *,
    name: str,
    image: str,
    namespace: str = "",
    kinds: Iterable[type[Object]] = (),
    extras: Iterable[Permission] = (),
    webhooks: Webhooks | Iterable[Webhook] = (),
    replicas: int = 1,
    shards: bool = False,
    **options: Any,
) -> Installation:
    """The installation of these controllers and webhooks, with the CRDs of their kinds and their permissions.

    `kinds` are additional classes with CRDs, and `options` the other attributes of `Installation`. It uses leader
    election, with a Lease of the installation's name, whatever the number of replicas: during a rollout there are two
    Pods of one replica, and a chart or `kubectl scale` changes the number later. With `shards` all replicas work
    instead, and share the objects. The operator itself writes its CA
    bundle into its webhook configurations.
    """
    several, target_namespace = tuple(controllers), namespace or f"{name}-system"
    hooks = webhooks if isinstance(webhooks, Webhooks) else Webhooks(webhooks)
    service = Service(name, target_namespace)
    conversions = {
        one["metadata"]["name"]: one["spec"]["conversion"] for one in conversion_patches(hooks, client_config=service)
    }
    hubs = [versions[0] for versions in Conversions(hooks.conversions).kinds.values()]
    more = [*extras, *_webhook_permissions(hooks, service)]
    environment: Mapping[str, str] = options.pop("environment", {})
    return Installation(
        name=name,
        image=image,
        namespace=target_namespace,
        replicas=replicas,
        lease=None if shards else name,
        shards=name if shards else None,
        definitions=crds_of([*_own_kinds(several), *hooks.kinds, *kinds], hubs=hubs, conversions=conversions),
        permissions=infer_permissions(
            several,
            namespace=target_namespace,
            lease=None if shards else name,
            has_shards=shards,
            extras=more,
        ),
        webhooks=configurations(hooks, client_config=service),
        environment={**({SERVICE_VARIABLE: f"{name}.{target_namespace}"} if hooks else {}), **environment},
        **options,
    )


def _webhook_permissions(webhooks: Webhooks, service: Service) -> Iterator[Permission]:
    if not webhooks:
        return
    for rule in webhook_rules(webhooks, secret=f"{service.name}-certificates"):
        (group,), (resource,) = rule["apiGroups"], rule["resources"]
        target_namespace = service.namespace if resource == "secrets" else None
        names: Sequence[str] = rule.get("resourceNames", ())
        yield Permission(group, resource, rule["verbs"], names=names, namespace=target_namespace, why="serves webhooks")


def _own_kinds(controllers: Iterable[Controller[Any]]) -> Iterator[type[Object]]:
    """The classes of the controllers, and of their relations in the same API groups."""
    for controller in controllers:
        group = view_of(controller.kind).gvk.group
        others = [one.kind for one in controller.relations if isinstance(one, Owns | Watches | References)]
        for kind in (controller.kind, *others):
            found = _class_of(kind)
            if found is not None and view_of(found).gvk.group == group:
                yield found


def _class_of(kind: Kind[Any]) -> type[Object] | None:
    behind: Any = kind.of if isinstance(kind, OnlyMetadata) else kind
    return behind if isinstance(behind, type) and issubclass(behind, Object) else None
