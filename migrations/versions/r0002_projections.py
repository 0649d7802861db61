"""Builds of read tables, and how far each session is folded into them."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "projection",
        sa.Column("id", _Id, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("shape", sa.Text, nullable=False),
        sa.Column("tables", sa.Text, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_projection"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_projection_name", "projection", ["name"])
    op.create_table(
        "projection_state",
        sa.Column("build_id", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("session_id", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("next_seq", sa.BigInteger, nullable=False),
        sa.Column("state", sa.LargeBinary),
        sa.Column("unknown", sa.LargeBinary),
        sa.Column("problem", sa.Text),
        sa.PrimaryKeyConstraint("build_id", "session_id", name="pk_projection_state"),
        sa.ForeignKeyConstraint(
            ["build_id"], ["projection.id"], name="fk_projection_state_build_id_projection"
        ),
        sa.ForeignKeyConstraint(
            ["session_id"], ["session.id"], name="fk_projection_state_session_id_session"
        ),
    )


def downgrade() -> None:
    """Also drops the read tables: only the table of their builds knows their names."""
    connection = op.get_bind()
    builds = connection.execute(sa.text("SELECT id, version, tables FROM projection")).fetchall()
    for build, version, tables in builds:
        for name in filter(None, tables.split(" ")):
            op.execute(f'DROP VIEW IF EXISTS "{name}"')
            op.execute(f'DROP TABLE IF EXISTS "{name}__v{version}_b{build}"')
    op.drop_table("projection_state")
    op.drop_index("ix_projection_name", "projection")
    op.drop_table("projection")
