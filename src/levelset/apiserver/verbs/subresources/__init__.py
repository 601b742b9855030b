"""The subresources with their own logic: scale, binding, eviction, token and log."""

__all__: list[str] = []
