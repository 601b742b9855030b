"""An operator that makes objects of a kind that is somebody else's, and has webhooks and two versions of its own."""

from levelset import Context, Controller, Resource, Spec, owns
from levelset.runtime.webhook import converts, validates
from tests.cli.operator import NewSite

__all__ = ["OldSign", "Sign", "SignSpec", "controllers", "make_controllers", "make_trouble", "webhooks"]


class SignSpec(Spec):
    """What stands on a sign."""

    text: str


class Sign(Resource[SignSpec, None], api="stranger.dev/v1"):
    """A sign."""


class OldSign(Resource[SignSpec, None], api="stranger.dev/v2alpha1", kind="Sign"):
    """A sign of another version."""


async def reconcile(sign: Sign, ctx: Context) -> None:
    """Nothing is to be done."""


def check(sign: Sign) -> None:
    """Refuses nothing."""


def to_hub(old: OldSign) -> Sign:
    """The same sign."""
    return Sign(metadata=old.metadata, spec=old.spec)


def from_hub(sign: Sign) -> OldSign:
    """The same sign, as it was."""
    return OldSign(metadata=sign.metadata, spec=sign.spec)


controllers = [Controller(Sign, reconcile, owns(NewSite))]
webhooks = [validates(Sign, check), converts(Sign, OldSign, to_hub=to_hub, from_hub=from_hub)]


def make_controllers() -> list[Controller[Sign]]:
    """The same, by a function."""
    return controllers


def make_trouble() -> None:
    """A function that fails."""
    raise LookupError("no such luck")
