"""Session store in an SQL database: SQLite by default, or PostgreSQL. No other package uses SQL.

`open_store` returns a `Store`; its `journal` opens a session for writing. Heavy packages are imported on first use.
"""

from typing import TYPE_CHECKING

from ..errors import ConfigError

if TYPE_CHECKING:
    from .recordings import Recordings
    from .sessions import Store

__all__ = ["open_recordings", "open_store"]


def open_store(url: str, owner: str = "", *, existing: bool = False) -> "Store":
    """Open the sessions of one owner at `sqlite:///path`, `sqlite://` (in memory) or `postgresql://...`.

    With `existing`, no new store is created; NoStoreError is raised if there is none. Raises ConfigError if the URL is
    invalid, a package is missing, or the store was written by a newer version, and StoreError if it cannot be opened.
    """
    try:
        from .sessions import Store
    except ImportError as error:
        hint = "run `pip install 'toolspeak[agent]'`, or for PostgreSQL `pip install 'toolspeak[postgres]'`"
        raise ConfigError(f"the session store requires the package `{error.name}`", hint=hint) from None
    return Store(url, owner, existing=existing)


def open_recordings(url: str, owner: str = "", *, existing: bool = False) -> "Recordings":
    """Open the recorded requests of one owner in the database at a URL. Raises the same errors as `open_store`."""
    store = open_store(url, owner, existing=existing)

    from .recordings import Recordings

    return Recordings(store.database, owner)
