"""Create the table of file changes.

Revision ID: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "file_changes",
        sa.Column("owner", sa.Text, primary_key=True),
        sa.Column("session", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("entry", sa.Integer, nullable=False),
        sa.Column("round", sa.Integer, nullable=False),
        sa.Column("call_id", sa.Text, nullable=False),
        sa.Column("root", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=True),
        sa.Column("undone", sa.Boolean, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.ForeignKeyConstraint(["owner", "session"], ["sessions.owner", "sessions.id"], ondelete="CASCADE"),
    )
    op.create_index("file_changes_by_root", "file_changes", ["owner", "root", "created"])
