"""Configuration: one immutable object that combines five sources and knows the origin of each setting.

Order of precedence: flags, environment (`TOOLSPEAK_*`), `toolspeak.toml` in the working directory, the user's file,
defaults. A file in the working directory is untrusted: until `toolspeak trust` has recorded its hash, it can change
only harmless settings. This is the only package that reads the environment.
"""

from __future__ import annotations

from .lookup import Config
from .sources import load, trust, trusted, untrust
from .values import (
    PROJECT_FILE,
    Auth,
    NamedUpstream,
    Secret,
    ServerToolsRow,
    Setting,
    Transport,
    TransportRoute,
    redacted_url,
)

__all__ = [
    "PROJECT_FILE",
    "Auth",
    "Config",
    "NamedUpstream",
    "Secret",
    "ServerToolsRow",
    "Setting",
    "Transport",
    "TransportRoute",
    "load",
    "redacted_url",
    "trust",
    "trusted",
    "untrust",
]
