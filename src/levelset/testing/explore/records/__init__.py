"""What is recorded of a run: its steps, changes and stored states, as values, and the comparable form of them."""

__all__: list[str] = []
