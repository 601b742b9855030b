"""Where the API server is and who the client is: kubeconfig, in-cluster config, credentials and TLS."""

__all__: list[str] = []
