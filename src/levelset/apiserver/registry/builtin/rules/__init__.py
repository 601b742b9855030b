"""The validation of the built-in kinds, as rule tables: one module per group, one line per rule."""

__all__: list[str] = []
