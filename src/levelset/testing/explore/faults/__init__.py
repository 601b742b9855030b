"""Faults as values: a plan is its disturbances, each bound to a step that is named by its content."""

__all__: list[str] = []
