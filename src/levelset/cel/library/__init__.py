"""The functions of CEL: the standard ones and those that Kubernetes adds, by name."""

from levelset.cel.library.functions import FUNCTIONS

__all__ = ["FUNCTIONS"]
