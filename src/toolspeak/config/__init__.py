"""Configuration: one immutable object that combines five sources and knows the origin of each setting.

Order of precedence: flags, environment (`TOOLSPEAK_*`), `toolspeak.toml` in the working directory, the user's file,
defaults. A file in the working directory is untrusted: until `toolspeak trust` has recorded its hash, it can change
only harmless settings. This is the only package that reads the environment.
"""

# pyright: reportUnusedImport=false
from .lookup import Config
from .sources import load, trust, trusted, untrust
from .values import (
    HARMLESS,
    PROJECT_FILE,
    Auth,
    Endpoint,
    NamedUpstream,
    Origin,
    Secret,
    ServerToolsRow,
    Setting,
    Transport,
    TransportRoute,
    UpstreamRow,
    redacted_url,
)
