"""ValidatingAdmissionPolicy and MutatingAdmissionPolicy."""

__all__: list[str] = []
