"""What a namespace limits: the usage that quotas count, and the resources that LimitRanges give and bound."""

__all__: list[str] = []
