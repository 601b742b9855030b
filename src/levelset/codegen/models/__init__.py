"""Python classes generated from CustomResourceDefinitions and OpenAPI documents."""

__all__: list[str] = []
