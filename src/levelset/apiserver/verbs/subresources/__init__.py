"""The subresources with their own logic: scale, eviction, token and log."""

__all__: list[str] = []
