"""Runs a scenario once in virtual time: the server, the processes, the users, other writers and the faults."""

__all__: list[str] = []
