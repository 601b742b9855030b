"""What Executables and Containers have in common: templates, variables, probes, certificates and Endpoints."""

__all__: list[str] = []
