"""The certificate of a running server: issued by its authority, and renewed in time without a restart.

```python
certificate = ServingCertificate(authority)
async with Server(handle, tls=await certificate.open()):
    ...
await certificate.close()
```

The decision is `ServingCertificate.is_due`; `renew_periodically` is the task that all servers with renewed certificates
share.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from levelset.aio import timing
from levelset.aio.supervisor import explain_cancellation
from levelset.errors import LevelsetError
from levelset.http.certificate_authority import (
    CertificateAuthority,
    Identity,
    Validity,
    renew_identity,
    validity_of,
)

__all__ = ["RENEW_EVERY", "ServingCertificate", "renew_periodically"]

_log: Final = logging.getLogger("levelset.http")

RENEW_EVERY: Final = 60.0
"""The seconds between two checks: the clock may be set, and goes on while a machine is suspended."""
_DAYS: Final = 365.0
_RENEW_FRACTION: Final = 1 / 3
_ROUNDING: Final = timedelta(minutes=1)


class ServingCertificate:
    """The certificate of a server for these names and addresses, valid for `days` by the clock `now`.

    In the last third of its time, or if the clock was set back before it, a new one replaces it: new connections get
    it, open ones keep theirs, and clients that trust the authority notice nothing. None outlives the authority.
    """

    def __init__(
        self,
        authority: CertificateAuthority,
        names: Sequence[str] = ("localhost",),
        addresses: Sequence[str] = ("127.0.0.1",),
        *,
        days: float = _DAYS,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        every: float = RENEW_EVERY,
    ) -> None:
        self._authority = authority
        self._names, self._addresses = tuple(names), tuple(addresses)
        self._days, self._now, self._every = days, now, every
        self._context: ssl.SSLContext | None = None
        self._validity: Validity | None = None
        self._renewing: asyncio.Task[None] | None = None

    async def open(self) -> ssl.SSLContext:
        """Issues the certificate and renews it until `close`; returns the TLS context of the server. ConfigError."""
        identity = await asyncio.to_thread(self._issue)
        self._context = await asyncio.to_thread(self._authority.server_context, identity)
        work = renew_periodically(self.renew, every=self._every, log=_log)
        self._renewing = asyncio.get_running_loop().create_task(work, name="serving certificate")
        return self._context

    async def close(self) -> None:
        """Ends the renewal."""
        renewing, self._renewing = self._renewing, None
        if renewing is not None:
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing

    def is_due(self, now: datetime) -> bool:
        """Whether a new certificate is needed now, and would be valid for longer."""
        if self._validity is None:
            return False
        begin, end = self._validity
        if now < begin:
            return True
        is_last = now >= end - timedelta(days=self._days) * _RENEW_FRACTION
        # One that ends with its authority cannot be replaced by a longer one; a second is lost by rounding.
        return is_last and end + _ROUNDING < validity_of(self._authority.certificate).end

    async def renew(self) -> bool:
        """Replaces the certificate if that is due; returns whether it was. ConfigError keeps the old one."""
        if self._context is None or not self.is_due(self._now()):
            return False
        await renew_identity(self._context, await asyncio.to_thread(self._issue))
        assert self._validity is not None  # set by `_issue`
        _log.info("using a renewed certificate", extra={"until": str(self._validity.end)})
        return True

    def _issue(self) -> Identity:
        now, authority_end = self._now(), validity_of(self._authority.certificate).end
        days = min(self._days, (authority_end - now) / timedelta(days=1))
        if days < self._days:
            _log.warning(
                "the certificate authority of the server expires soon: replace it and give clients the new one",
                extra={"until": str(authority_end)},
            )
        identity = self._authority.issue_server(self._names, self._addresses, within=days, at=now)
        self._validity = validity_of(identity.certificate)
        return identity


async def renew_periodically(
    renew: Callable[[], Awaitable[object]], *, every: float = RENEW_EVERY, log: logging.Logger = _log
) -> None:
    """Calls `renew` every so many seconds, whatever it raises: errors are logged.

    The current certificate is valid for a while, so there is time for retries and for an operator to act.
    """
    while True:
        await timing.sleep(every)
        try:
            await renew()
        except (LevelsetError, OSError) as error:
            log.error("certificate renewal failed", extra={"error": str(error)})  # noqa: TRY400 - the message says it
        except asyncio.CancelledError as error:
            log.exception("certificate renewal failed", exc_info=explain_cancellation(error))
        except Exception as error:
            log.exception("certificate renewal failed", exc_info=error)
