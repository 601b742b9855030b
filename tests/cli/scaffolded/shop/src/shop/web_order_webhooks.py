"""What a WebOrder must be before it is stored: to refuse is to raise, to change is to return the changed object."""

from levelset import Denied
from levelset.runtime.webhook import Review, defaults, validates

from shop.web_order import WebOrder

LONGEST = 200


def fill_in(wanted: WebOrder) -> WebOrder:
    """Fills in what somebody has left out."""
    return wanted if wanted.spec.message else wanted.with_spec(message="hello")


def check(wanted: WebOrder, review: Review[WebOrder]) -> None:
    """Refuses what cannot be meant."""
    if len(wanted.spec.message) > LONGEST:
        raise Denied(f"spec.message: at most {LONGEST} characters, not {len(wanted.spec.message)}")
    if review.old is not None and review.old.spec.message != wanted.spec.message:
        review.warn("the message changes for everybody who reads it")


web_order_webhooks = [defaults(WebOrder, fill_in), validates(WebOrder, check)]
