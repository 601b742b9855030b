"""The served resources: names, schema and strategy of each, the catalog of all, and the shared server state."""

__all__: list[str] = []
