"""The function libraries of CEL: the standard library and the Kubernetes extensions."""

from levelset.cel.library.functions import FUNCTIONS

__all__ = ["FUNCTIONS"]
