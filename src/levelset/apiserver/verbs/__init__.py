"""What each verb of the API does: get, list, create, update, patch, apply, delete, watch and subresources."""

__all__: list[str] = []
