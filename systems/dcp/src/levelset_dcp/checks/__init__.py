"""What may be written: rules between fields and between the old object and the new one, asked before every write."""

from levelset_dcp.checks.hooks import Prohibition, hooks

__all__ = ["Prohibition", "hooks"]
