"""Judges runs: the rules, the statements of users, endless loops, and the comparison with the undisturbed run."""

__all__: list[str] = []
