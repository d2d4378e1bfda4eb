"""Starts the server: one upstream by address, uvicorn around the application.

Above: the command line. Below: `app`, `gateway`, `reach`, the configuration.
"""

from __future__ import annotations

import uvicorn

from ..config import Config
from ..core.capability import capabilities
from ..plugins import Plugins
from ..reach import reach
from .app import App
from .gateway import Gateway

__all__ = ["gateway_from", "serve"]


def gateway_from(config: Config, upstream: str, model: str) -> Gateway:
    """A gateway to one upstream; requests name the model unless the caller does."""
    known = capabilities()
    plugins = Plugins(config.load_plugins)
    plugins.extend(known)
    known.configure(*config.overrides())
    name = model or config.model or "openai:"
    reached = reach(name if ":" in name else f"openai:{name}", upstream, "", config, plugins)
    state = config.state()
    secret = config.secret(state).reveal().encode()
    return Gateway(reached, config.settings_for(str(reached)), known, state, secret, any_model=not reached.model)


def serve(app: App, host: str, port: int) -> None:
    """Serve until interrupted."""
    uvicorn.run(app, host=host, port=port, access_log=False, log_level="warning", lifespan="on", timeout_keep_alive=75)
