"""Cache keys (`namespace/name`) and the order of resourceVersions."""

from levelset.objects.cached_object import Head

__all__ = ["is_older", "key_for", "key_of"]


def key_of(head: Head) -> str:
    """The key of an object: `default/blog`, or `blog` for a cluster-scoped object."""
    return f"{head.namespace}/{head.name}" if head.namespace else head.name


def key_for(name: str, namespace: str | None) -> str:
    """The key of the object with this name in this namespace."""
    return f"{namespace}/{name}" if namespace else name


def is_older(version: str, than: str) -> bool:
    """Whether one resourceVersion is certainly older than another: both are numbers, and it is the smaller one.

    The API calls resourceVersions opaque, but kube-apiserver only ever counts them up. One that is not a number is
    never reported as older.
    """
    if len(version) == len(than):
        if version >= than:
            return False
    elif len(version) > len(than):
        return False
    return version.isdecimal() and than.isdecimal()
