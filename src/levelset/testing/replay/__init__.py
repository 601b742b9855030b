"""Replays of recordings: the same controllers, the same caches, answers and times, without a cluster.

`replay` plays a recording and returns the first difference, if there is one; `assert_replays` is the same for a test.
`Replayer` performs the entries of a recording in order (`replayer.py`) on an event loop that it drives.
"""

from levelset.testing.replay.differences import Difference, Note, ReplayDiffers
from levelset.testing.replay.replay_run import Replay, assert_replays, replay

__all__ = ["Difference", "Note", "Replay", "ReplayDiffers", "assert_replays", "replay"]
