"""Recordings of a running manager: everything that its reconciles saw and did, in one file.

`Recorder` records a process into a file (`recording_file.py`) of entries (`entries.py`); secret values are replaced on
the way (`redaction.py`). `recorded` makes clients of the outside part of it. `levelset.testing.replay` plays it again.
The reasons are in docs/decisions/0037-recordings.md.
"""

from typing import TYPE_CHECKING

from levelset.late_exports import late_exports

if TYPE_CHECKING:
    from levelset.runtime.recording.outside_calls import recorded
    from levelset.runtime.recording.recorded_history import reconciles_in, runs_part_at, status_of
    from levelset.runtime.recording.recorder import Recorder
    from levelset.runtime.recording.recording_file import read_beginning, read_recording
    from levelset.runtime.recording.recording_options import (
        Recording,
        RecordingLimits,
        parse_size,
        parse_time,
        recording_of,
        switched_on_later,
    )
    from levelset.runtime.recording.run_timeline import RunTimeline

__all__ = [
    "Recorder",
    "Recording",
    "RecordingLimits",
    "RunTimeline",
    "parse_size",
    "parse_time",
    "read_beginning",
    "read_recording",
    "reconciles_in",
    "recorded",
    "recording_of",
    "runs_part_at",
    "status_of",
    "switched_on_later",
]

__getattr__, __dir__ = late_exports(
    __name__,
    {
        "levelset.runtime.recording.outside_calls": "recorded",
        "levelset.runtime.recording.recorded_history": "reconciles_in runs_part_at status_of",
        "levelset.runtime.recording.recorder": "Recorder",
        "levelset.runtime.recording.recording_file": "read_beginning read_recording",
        "levelset.runtime.recording.recording_options": (
            "Recording RecordingLimits parse_size parse_time recording_of switched_on_later"
        ),
        "levelset.runtime.recording.run_timeline": "RunTimeline",
    },
)
