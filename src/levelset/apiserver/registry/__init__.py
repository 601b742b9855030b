"""What is served and how objects of each resource are prepared for storage."""

__all__: list[str] = []
