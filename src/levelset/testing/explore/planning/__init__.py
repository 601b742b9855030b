"""Chooses plans: from the undisturbed run, from recoveries, and by what earlier plans have reached."""

__all__: list[str] = []
