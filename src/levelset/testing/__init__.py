"""What tests need: shipped, because whoever builds on levelset writes tests too."""

from levelset.testing.contracts import STORAGE_CONTRACT, Check, check_storage

__all__ = ["STORAGE_CONTRACT", "Check", "check_storage"]
