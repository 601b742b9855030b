"""The validating webhooks of DCP: rules between fields, and between the old object and the new one."""

from levelset_dcp.admission.webhooks import ShutdownGate, webhooks

__all__ = ["ShutdownGate", "webhooks"]
