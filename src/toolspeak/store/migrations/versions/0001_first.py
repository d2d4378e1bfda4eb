"""Create the initial tables: sessions and their contents, leases, key-value state, recordings.

Revision ID: 0001
"""

from toolspeak.store.database import run_migration

revision = "0001"
down_revision = None


def upgrade() -> None:
    run_migration("0001_first")
