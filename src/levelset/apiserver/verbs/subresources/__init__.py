"""The subresources with their own logic: scale, eviction, token, log and finalize of namespaces."""

__all__: list[str] = []
