"""Admission webhooks of WebOrder: raise Denied to reject an object, return a changed object to mutate it."""

from levelset import Denied
from levelset.runtime.webhook import Review, defaults, validates

from shop.web_order import WebOrder

LONGEST = 200


def set_defaults(wanted: WebOrder) -> WebOrder:
    """Sets default values."""
    return wanted if wanted.spec.message else wanted.with_spec(message="hello")


def check(wanted: WebOrder, review: Review[WebOrder]) -> None:
    """Validates the object."""
    if len(wanted.spec.message) > LONGEST:
        raise Denied(f"spec.message: at most {LONGEST} characters, not {len(wanted.spec.message)}")
    if review.old is not None and review.old.spec.message != wanted.spec.message:
        review.warn("the message changes for all readers")


web_order_webhooks = [defaults(WebOrder, set_defaults), validates(WebOrder, check)]
