"""The bytes of model calls, beside the log."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "exchange",
        sa.Column("session_id", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("exchange_no", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("turn", sa.BigInteger),
        sa.Column("step", sa.BigInteger),
        sa.Column("number", sa.BigInteger),
        sa.Column("seq", sa.BigInteger),
        sa.Column("dialect", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("began_ms", sa.BigInteger, nullable=False),
        sa.Column("head_ms", sa.BigInteger),
        sa.Column("ended_ms", sa.BigInteger, nullable=False),
        sa.Column("ending", sa.Text, nullable=False),
        sa.Column("status", sa.BigInteger),
        sa.Column("request_headers", sa.LargeBinary, nullable=False),
        sa.Column("request", sa.LargeBinary, nullable=False),
        sa.Column("headers", sa.LargeBinary, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("body_len", sa.BigInteger, nullable=False),
        sa.Column("whole", sa.Integer, nullable=False),
        sa.Column("pieces", sa.LargeBinary, nullable=False),
        sa.Column("check", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("session_id", "exchange_no", name="pk_exchange"),
        sa.ForeignKeyConstraint(["session_id"], ["session.id"], name="fk_exchange_session_id_session"),
    )
    op.add_column("store", sa.Column("exchanges", sa.BigInteger, nullable=False, server_default=sa.text("0")))


def downgrade() -> None:
    op.drop_column("store", "exchanges")
    op.drop_table("exchange")
