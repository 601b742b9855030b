"""Names that others rely on: the API group, finalizers, annotations and labels of DCP."""

from typing import Final

__all__ = [
    "API",
    "DISPLAY_NAME",
    "GROUP",
    "LABELS",
    "REPLICA_ID",
    "REPLICA_SET_NAME",
    "REPLICA_STATE",
    "SERVICE_PRODUCER",
    "finalizer",
]

GROUP: Final = "usvc-dev.developer.microsoft.com"
API: Final = f"{GROUP}/v1"
SERVICE_PRODUCER: Final = "service-producer"
"""The annotation in which a workload says which Services it produces, as JSON."""

REPLICA_STATE: Final = f"executable-replica-set.{GROUP}/replica-state"
DISPLAY_NAME: Final = f"executable-replica-set.{GROUP}/display-name"
REPLICA_ID: Final = f"executable-replica-set.{GROUP}/replica-id"
REPLICA_SET_NAME: Final = f"executable-replica-set.{GROUP}/replica-set-name"

LABELS: Final = "com.microsoft.developer.usvc-dev."
"""How the labels begin that containers, networks and volumes of an engine get."""


def finalizer(word: str) -> str:
    """The finalizer of a controller, such as `executable-reconciler`."""
    return f"{GROUP}/{word}"
