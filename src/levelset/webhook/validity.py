"""How long a certificate is valid, read from the certificate itself."""

from datetime import UTC, datetime
from typing import Final, NamedTuple

from levelset.errors import ConfigError
from levelset.web import der

__all__ = ["Validity", "validity_of"]

_VERSION: Final = 0xA0
_SHORT: Final = 0x17


class Validity(NamedTuple):
    """From when until when."""

    begin: datetime
    end: datetime

    def is_due(self, now: datetime, *, last: float) -> bool:
        """Whether the last part of its life, such as a third, has begun."""
        return now >= self.end - (self.end - self.begin) * last


def validity_of(pem: bytes) -> Validity:
    """The validity of the first certificate in a PEM text; ConfigError if there is none that can be read."""
    try:
        certificate = der.from_pem("CERTIFICATE", pem)
        if certificate is None:
            raise ConfigError("There is no certificate in it: it must be PEM, with BEGIN CERTIFICATE.")
        fields = der.parts(der.value_of(der.parts(der.value_of(certificate))[0]))
        if fields[0][0] == _VERSION:  # which the oldest ones do not have
            del fields[0]
        begin, end = der.parts(der.value_of(fields[3]))
        return Validity(_moment(begin), _moment(end))
    except (ValueError, IndexError) as error:
        raise ConfigError(f"The certificate cannot be read: {error}.") from error


def _moment(value: bytes) -> datetime:
    text = der.value_of(value).decode("ascii")
    form = "%y%m%d%H%M%SZ" if value[0] == _SHORT else "%Y%m%d%H%M%SZ"
    return datetime.strptime(text, form).replace(tzinfo=UTC)
