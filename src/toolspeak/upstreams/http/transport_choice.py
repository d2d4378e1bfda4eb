"""Which transport serves: the thin one, unless the configuration or a proxy asks for the other."""

from __future__ import annotations

from collections.abc import Mapping

from ...config import Route
from ...core.types import Note
from ...errors import ConfigError
from .connection import Timeouts
from .retry import Retry
from .service import Service
from .thin_transport import HttpUpstream


def service(
    route: Route,
    base_url: str,
    api_key: str = "",
    protocol: str = "openai_chat",
    timeouts: Timeouts | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    provider: str = "",
    retry: Retry | None = None,
) -> Service:
    """The service at `base_url`, reached by this route. A proxy that was not asked for in so many words is noted.

    Raises:
        ConfigError: the route needs a package that is not installed.
    """
    if route.transport == "thin":
        return HttpUpstream(base_url, api_key, protocol, timeouts, headers or {}, provider=provider, retry=retry)
    from .httpx2_transport import Httpx2Upstream

    told = (Note("proxy_used", f"through the proxy that {route.variable} names"),) if route.proxy else ()
    try:
        return Httpx2Upstream(
            base_url,
            api_key,
            protocol,
            timeouts,
            headers or {},
            provider=provider,
            retry=retry,
            proxy=route.proxy.reveal(),
            told=told,
        )
    except ConfigError as error:
        if route.variable:
            error.hint = f'{error.hint}; or go without the proxy of {route.variable}: transport = "thin"'
        raise
