"""Greets every Greeting by writing a message into its status."""

from levelset import Context, Controller, Resource, Spec, Status, run


class GreetingSpec(Spec):
    name: str


class GreetingStatus(Status):
    message: str


class Greeting(Resource[GreetingSpec, GreetingStatus], api="demo.example.dev/v1"):
    """A person to greet."""


async def greet(greeting: Greeting, ctx: Context) -> None:
    message = f"Hello, {greeting.spec.name}!"
    await ctx.set_status(greeting, GreetingStatus(message=message))


greetings = Controller(Greeting, greet)

if __name__ == "__main__":
    run(greetings)
