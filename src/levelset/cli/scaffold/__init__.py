"""`levelset init` and `levelset create`: a new project and its files."""

__all__: list[str] = []
