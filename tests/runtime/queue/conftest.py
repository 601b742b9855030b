"""Every test here runs in virtual time, and must leave no task behind."""

from tests.aio.conftest import event_loop_policy, no_task_is_left

__all__ = ["event_loop_policy", "no_task_is_left"]
