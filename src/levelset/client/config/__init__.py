"""How to reach an API server: kubeconfig, in-cluster config, credentials and TLS."""

__all__: list[str] = []
