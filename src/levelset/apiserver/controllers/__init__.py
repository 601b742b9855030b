"""The controllers inside the API server: garbage collection, namespaces, CRD cleanup, event expiry."""

__all__: list[str] = []
