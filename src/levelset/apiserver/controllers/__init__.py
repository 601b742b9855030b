"""The controllers that run inside the API server: garbage collection, namespaces, CRD cleanup, event expiry, RBAC."""

__all__: list[str] = []
