"""The built-in kinds: defaults, validation and allocation, by group."""

__all__: list[str] = []
