"""The rules of Pods: containers, volumes, scheduling and everything else in a pod spec."""

__all__: list[str] = []
