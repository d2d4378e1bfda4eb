"""What a client hears that is one too many: an error in the words of its protocol, and when to come back.

uvicorn counts the connections and would say so in plain text, which no SDK reads. Nothing else is looked at: no key, no
limit, no model.
"""

from __future__ import annotations

from contextlib import suppress

from ...errors import ToolspeakError
from ..asgi import Receive, Scope, Send, error_headers, read_body, respond
from ..proxy.client_protocols import face
from ..routes import find, for_caller
from ..unsupported import refusal

#: Bytes of a body that are read and forgotten: who is cut off while it still sends may lose the answer.
_MOST_FORGOTTEN = 256 * 1024


class Crowded(ToolspeakError):
    """More clients than this server has files for."""

    status = 503
    retry_after = 1.0


async def turned_away(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer in place of the application, and close the connection, so that there is room again."""
    with suppress(ToolspeakError):
        await read_body(scope, receive, _MOST_FORGOTTEN)
    error = Crowded("there are too many clients at the moment", hint="come back in a second")
    status, body = face(_shape(scope)).error(error)
    await respond(send, status, body, headers=[*error_headers(error), (b"connection", b"close")])


def _shape(scope: Scope) -> str:
    """The protocol that the client speaks, as far as its path tells."""
    method, path = scope["method"], scope["path"]
    route = find(method, path)
    return refusal(method, path).shape if route is None else for_caller(route, scope["headers"]).shape
