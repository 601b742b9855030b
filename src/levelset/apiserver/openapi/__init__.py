"""The OpenAPI documents of everything served, versions 2 and 3."""

__all__: list[str] = []
