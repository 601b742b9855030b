"""The verbs of the API: get, list, create, update, patch, apply, delete, watch, and the subresources."""

__all__: list[str] = []
