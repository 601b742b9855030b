"""Reports: texts, JSON, JUnit and HTML about an exploration, and the coverage of call sites."""

__all__: list[str] = []
