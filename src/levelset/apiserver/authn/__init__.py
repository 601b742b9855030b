"""Authentication: tokens, client certificates, service accounts and impersonation."""

__all__: list[str] = []
