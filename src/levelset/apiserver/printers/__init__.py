"""The tables that `kubectl get` prints."""

__all__: list[str] = []
