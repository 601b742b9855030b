"""Authorization: RBAC, escalation checks, bootstrap roles and access reviews."""

__all__: list[str] = []
