"""`Recording`: where and how a run is recorded, and the texts of its limits on the command line (`64Mi`, `10m`)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from levelset.errors import BadQuantity, ConfigError
from levelset.objects.quantity import Quantity

__all__ = ["Recording", "RecordingLimits", "parse_size", "parse_time", "recording_of", "switched_on_later"]

_MEGABYTE: Final = 1024 * 1024
_HOUR: Final = 3600.0
_UNITS: Final[Mapping[str, float]] = {"s": 1.0, "m": 60.0, "h": _HOUR}


class Recording(msgspec.Struct, frozen=True):
    """Where and how a run is recorded; a plain path stands for one with the defaults.

    It ends by itself at `max_bytes`, or after `max_seconds`; the program goes on. Values of Secrets are replaced by
    stand-ins unless `redact_secrets` is off, and so are the fields in `redact`, such as `Website.spec.token`. A text in
    `keep` is never taken for secret.

    Without `from_start` a process is recorded only when it is switched on, by `levelset record on`, by SIGUSR1 or by
    `Manager.start_recording`; whatever these do not say is as it is here.
    """

    path: str | Path
    max_bytes: int | None = 256 * _MEGABYTE
    max_seconds: float | None = None
    redact: Sequence[str] = ()
    keep: Sequence[str] = ()
    redact_secrets: bool = True
    from_start: bool = True


class RecordingLimits(msgspec.Struct, frozen=True):
    """What a request to record a running process may say, as texts; None where it says nothing."""

    file: str | None = None
    size: str | None = None
    time: str | None = None
    redact: tuple[str, ...] = ()

    def applied_to(self, recording: Recording) -> Recording:
        """The recording within these limits; ConfigError if one of them cannot be read."""
        if self.size is not None:
            recording = replace(recording, max_bytes=parse_size(self.size))
        if self.time is not None:
            recording = replace(recording, max_seconds=parse_time(self.time))
        return replace(recording, redact=(*recording.redact, *self.redact))


def recording_of(given: "str | Path | Recording") -> Recording:
    """The recording that a path, or a recording itself, stands for."""
    return given if isinstance(given, Recording) else Recording(given)


def switched_on_later(
    options: Recording | None, path: str | Path | None, *, folder: Path, name: str, now: datetime
) -> Recording:
    """The recording of a process that runs already: in a new file, and for an hour if nothing else is said.

    A file that is not named is named after the time, beside the file in `options`, or else in `folder`.
    """
    options = options or Recording(folder / f"{name}.levelset", max_seconds=_HOUR)
    beside = Path(options.path)
    new = beside.with_name(f"{beside.stem}-{now:%Y%m%dT%H%M%S}{beside.suffix}")
    return replace(options, path=new if path is None else path)


def parse_size(text: str) -> int:
    """Parses a size in bytes, such as `64Mi`; ConfigError for anything else."""
    try:
        size = int(Quantity.parse(text))
    except BadQuantity:
        size = 0
    if size <= 0:
        raise ConfigError(f"{text!r} is no size of a recording: expected bytes, such as 64Mi")
    return size


def parse_time(text: str) -> float:
    """Parses a length of time in seconds, such as `90s`, `10m` or `1h`; ConfigError for anything else."""
    try:
        seconds = float(text[:-1]) * _UNITS.get(text[-1:], 0.0)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ConfigError(f"{text!r} is no time of a recording: expected 90s, 10m or 1h")
    return seconds
