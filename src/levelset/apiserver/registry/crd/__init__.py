"""Custom resource definitions: validation, names and the resources that they serve."""

__all__: list[str] = []
