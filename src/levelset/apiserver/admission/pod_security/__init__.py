"""Pod security admission: the Pod Security Standards, and the labels of namespaces that enforce them."""

__all__: list[str] = []
