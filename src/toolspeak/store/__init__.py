"""Where conversations are kept: SQLite by default, PostgreSQL by URL. The only part of toolspeak that knows SQL.

`open_store` gives a `Store`; its `journal` is what an agent writes into. Everything heavy is imported when it is
asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ConfigError

if TYPE_CHECKING:
    from .recordings import Recordings
    from .sessions import Store

__all__ = ["open_recordings", "open_store"]


def open_store(url: str, owner: str = "", *, existing: bool = False) -> Store:
    """The sessions of one owner in the database at a URL: `sqlite:///path`, `sqlite://` (in memory), `postgresql://...`.

    With `existing`, only a store that is there already is opened: who reads would find nothing in a new one.

    Raises:
        NoStoreError: `existing`, and there is none.
        ConfigError: the URL cannot be used, a package is missing, or a newer version of toolspeak has been here.
        StoreError: it cannot be opened.
    """
    try:
        from .sessions import Store
    except ImportError as error:
        hint = "pip install 'toolspeak[agent]'; for PostgreSQL 'toolspeak[postgres]'"
        raise ConfigError(f"the store needs the package `{error.name}`", hint=hint) from None
    return Store(url, owner, existing=existing)


def open_recordings(url: str, owner: str = "", *, existing: bool = False) -> Recordings:
    """The requests that were kept in the database at a URL.

    Raises:
        NoStoreError, ConfigError, StoreError: as for `open_store`.
    """
    store = open_store(url, owner, existing=existing)

    from .recordings import Recordings

    return Recordings(store.database, owner)
