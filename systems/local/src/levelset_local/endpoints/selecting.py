"""Which Services select a Pod: one label of each selector is what the two have in common."""

from collections.abc import Hashable, Iterator, Mapping

from levelset.kinds.core_v1 import Pod, Service

__all__ = ["selector_of", "shared_by_pod", "shared_by_service"]


def selector_of(service: Service) -> Mapping[str, str]:
    """The labels of the Pods that a Service leads to; empty if it is left to others where it leads."""
    return {} if service.spec.type == "ExternalName" else service.spec.selector


def shared_by_service(service: Service) -> Iterator[Hashable]:
    """One label that every Pod of a Service has: who has it may be one of them, and who does not is none."""
    selector = selector_of(service)
    if selector:
        yield service.namespace, min(selector.items())


def shared_by_pod(pod: Pod) -> Iterator[Hashable]:
    """The labels by which a Pod may be selected, each with its namespace."""
    for label in pod.metadata.labels.items():
        yield pod.namespace, label
