"""Takes every response from 400 to 499 for a mistake of the user, and does not retry: also "too many requests".

Modelled on DataDog/datadog-operator#3429 (client errors are not retried, though 401, 403 and 408 may pass). The fix
gives up only what the server has rejected as invalid.
"""

from levelset import ApiError, Conflict, Context, Controller, GiveUp, Resource, Spec, Status, owns
from levelset.errors import Invalid
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Monitor", "broken", "expected", "fixed"]


class MonitorSpec(Spec):
    query: str


class Monitor(Resource[MonitorSpec, Status], api="zoo.example.dev/v1"):
    """A monitor with a query."""


async def write(monitor: Monitor, ctx: Context) -> None:
    await ctx.apply(config_map(monitor, monitor.name, query=monitor.spec.query), owner=monitor)


async def give_up_client_errors(monitor: Monitor, ctx: Context) -> None:
    try:
        await write(monitor, ctx)
    except Conflict:
        raise
    except ApiError as error:
        if 400 <= error.code < 500:
            raise GiveUp("the monitor is not accepted") from error
        raise


async def give_up_invalid(monitor: Monitor, ctx: Context) -> None:
    try:
        await write(monitor, ctx)
    except Invalid as error:
        raise GiveUp("the monitor is not accepted") from error


async def scenario(user: Cluster) -> None:
    await user.create(Monitor.new("latency", MonitorSpec(query="p99 > 1")))
    await user.settled()


broken = Exploration(scenario, lambda: [Controller(Monitor, give_up_client_errors, owns(ConfigMap))])
fixed = Exploration(scenario, lambda: [Controller(Monitor, give_up_invalid, owns(ConfigMap))])
expected = Expected("end state", "apply", "ConfigMap")
