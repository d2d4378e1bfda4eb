"""Brings a database to the tables that this version knows: forward only, in one transaction, once.

Alembic is imported only where there is something to do. The revisions lie in the package, beside this module, and no
file of settings is needed.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from ..errors import ConfigError
from .schema import HEAD, VERSION_TABLE

#: All processes that migrate one PostgreSQL database wait for each other here. Any number that others do not use.
LOCK = 0x746F6F6C
_SCRIPTS = Path(__file__).parent / "migrations"
_VERSION = sa.table(VERSION_TABLE, sa.column("version_num", sa.Text))


def is_current(connection: sa.Connection) -> bool:
    """Whether there is nothing to do.

    Raises:
        ConfigError: a newer version of toolspeak has been here.
    """
    found = _found(connection)
    if found is not None and found > HEAD:
        hint = "use that version, or name another database"
        raise ConfigError(
            f"the store was written by a newer version of toolspeak (schema {found}, known is {HEAD})", hint=hint
        )
    return found == HEAD


def is_there(connection: sa.Connection) -> bool:
    """Whether there is a store, of whatever version."""
    return _found(connection) is not None


def migrate(connection: sa.Connection) -> None:
    """Bring the tables up to date; `connection` is in a transaction that nobody else can be in."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))
    if is_current(connection):  # somebody was quicker
        return
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

    settings = Config()
    settings.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    script = ScriptDirectory.from_config(settings)

    def steps(revision: object, _: object) -> list[object]:
        return script._upgrade_revs(HEAD, revision)  # type: ignore[arg-type]  # pyright: ignore

    with EnvironmentContext(settings, script, fn=steps, destination_rev=HEAD) as environment:  # type: ignore[arg-type]
        environment.configure(connection=connection, version_table=VERSION_TABLE, transactional_ddl=True)
        environment.run_migrations()


def _found(connection: sa.Connection) -> str | None:
    """The revision that the database is at; None: nobody has been here."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(sa.select(_VERSION.c.version_num)).scalar()
