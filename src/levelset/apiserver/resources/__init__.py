"""What the server knows of each resource: names, schema and rules; the catalog of all; the shared state."""

__all__: list[str] = []
