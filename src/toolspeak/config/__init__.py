"""The configuration: one frozen value, put together from five sources, that knows where each setting came from.

A flag beats the environment (`TOOLSPEAK_*`), which beats `toolspeak.toml` in the working directory, which beats
the user's own file, which beats the default. A file in the working directory may come from anybody: until
`toolspeak trust` has recorded its hash it sets harmless things only. This is the only part that reads the
environment.
"""

from __future__ import annotations

from .lookup import Config
from .sources import load, trust, trusted, untrust
from .values import (
    HARMLESS,
    PROJECT_FILE,
    Auth,
    Endpoint,
    NamedUpstream,
    Origin,
    Route,
    Secret,
    ServerToolsRow,
    Setting,
    Transport,
    UpstreamRow,
    shown_url,
)

__all__ = [
    "HARMLESS",
    "PROJECT_FILE",
    "Auth",
    "Config",
    "Endpoint",
    "NamedUpstream",
    "Origin",
    "Route",
    "Secret",
    "ServerToolsRow",
    "Setting",
    "Transport",
    "UpstreamRow",
    "load",
    "shown_url",
    "trust",
    "trusted",
    "untrust",
]
