"""Create the table of file changes.

Revision ID: 0002
"""

from toolspeak.store.database import run_migration

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    run_migration("0002_file_changes")
