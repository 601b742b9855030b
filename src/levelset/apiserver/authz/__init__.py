"""Authorization: RBAC, privilege escalation checks and access reviews."""

__all__: list[str] = []
