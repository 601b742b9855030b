"""Run sessions: programs that an IDE runs for us, over HTTP, with notifications over a WebSocket."""

from levelset_dcp.ide.protocol import IdeEndpoint
from levelset_dcp.ide.run_sessions import IdeRunner, IdeTimes, RunSession, SessionRequest, SessionState

__all__ = ["IdeEndpoint", "IdeRunner", "IdeTimes", "RunSession", "SessionRequest", "SessionState"]
