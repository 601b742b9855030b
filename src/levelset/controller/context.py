"""What a reconciler may do: read, apply, save, tell, and have slow work done.

```python
async def reconcile(site: Website, ctx: Context) -> None:
    running = await ctx.apply(deployment(site), owner=site)
    await ctx.set_status(site, WebsiteStatus(ready=running.status.ready_replicas))
```
"""

from collections.abc import Callable, Coroutine
from typing import Any

from levelset.controller.acting import Acting
from levelset.objects.identity import Ref
from levelset.objects.resource import Object
from levelset.objects.unstructured import Unstructured
from levelset.state import Handle

__all__ = ["Context"]


class Context(Acting):
    """One look at one object: what is known about it, and everything that may be done.

    Reads are those of `Looking`, writes those of `Acting`. A context is for one look only; what runs longer keeps refs.
    """

    def __repr__(self) -> str:
        return f"<Context of {self.services.controller_name} for {self.request}>"

    def record(
        self,
        obj: Object | Unstructured | Ref[Any],
        reason: str,
        message: str,
        *,
        warning: bool = False,
        action: str = "Reconcile",
        related: Object | Unstructured | Ref[Any] | None = None,
    ) -> None:
        """Tells as a Kubernetes Event that something happened to an object. Never waits and never fails.

        `reason` is one word in CamelCase, the message a sentence. What happens again within six minutes is counted.
        """
        self.services.recorder.record(obj, reason, message, warning=warning, action=action, related=related)

    def background(
        self,
        work: Coroutine[Any, Any, object] | Callable[[], Coroutine[Any, Any, object]],
        *,
        name: str | None = None,
    ) -> Handle:
        """Has slow work done outside of the reconciler; started again while it runs, it is the same piece of work.

        What it finds out goes into a `StateMap` as a deferred change, which wakes the controller.
        """
        return self.services.work.start(self.ref, work, name=name)
