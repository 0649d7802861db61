"""The first tables: sessions, rows, segments, the commit log, files."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "store",
        sa.Column("id", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("format", sa.Integer, nullable=False),
        sa.Column("store_uuid", sa.Text, nullable=False),
        sa.Column("pos", sa.BigInteger, nullable=False),
        sa.Column("sessions", sa.BigInteger, nullable=False),
        sa.Column("artifacts", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_store"),
    )
    op.create_table(
        "session",
        sa.Column("id", _Id, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("dialect", sa.Text, nullable=False),
        sa.Column("header", sa.LargeBinary, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("cwd", sa.Text),
        sa.Column("parent_key", sa.Text),
        sa.Column("seed_length", sa.BigInteger),
        sa.Column("origin", sa.Text),
        sa.Column("delegation_depth", sa.BigInteger),
        sa.Column("next_seq", sa.BigInteger, nullable=False),
        sa.Column("lines", sa.BigInteger, nullable=False),
        sa.Column("events", sa.BigInteger, nullable=False),
        sa.Column("first_ms", sa.BigInteger),
        sa.Column("last_ms", sa.BigInteger),
        sa.Column("chain", sa.LargeBinary, nullable=False),
        sa.Column("head", sa.LargeBinary, nullable=False),
        sa.Column("sealed_lines", sa.BigInteger, nullable=False),
        sa.Column("artifacts", sa.BigInteger, nullable=False),
        sa.Column("findings", sa.LargeBinary),
        sa.Column("idem", sa.Text),
        sa.Column("check", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_session"),
        sa.UniqueConstraint("key", "generation", name="uq_session_key_generation"),
    )
    op.create_table(
        "type",
        sa.Column("id", _Id, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_type"),
        sa.UniqueConstraint("name", name="uq_type_name"),
    )
    op.create_table(
        "commit_log",
        sa.Column("pos0", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("session_id", sa.BigInteger, nullable=False),
        sa.Column("seq0", sa.BigInteger, nullable=False),
        sa.Column("n", sa.BigInteger, nullable=False),
        sa.Column("time_ms", sa.BigInteger, nullable=False),
        sa.Column("idem", sa.Text),
        sa.Column("check", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("pos0", name="pk_commit_log"),
        sa.ForeignKeyConstraint(["session_id"], ["session.id"], name="fk_commit_log_session_id_session"),
        sa.UniqueConstraint("session_id", "idem", name="uq_commit_log_session_id_idem"),
    )
    op.create_index("ix_commit_log_session_id_seq0", "commit_log", ["session_id", "seq0"])
    op.create_table(
        "event",
        sa.Column("session_id", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("line_no", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("seq0", sa.BigInteger, nullable=False),
        sa.Column("n", sa.BigInteger, nullable=False),
        sa.Column("type_id", sa.BigInteger, nullable=False),
        sa.Column("time_ms", sa.BigInteger, nullable=False),
        sa.Column("line", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("session_id", "line_no", name="pk_event"),
        sa.ForeignKeyConstraint(["session_id"], ["session.id"], name="fk_event_session_id_session"),
        sa.ForeignKeyConstraint(["type_id"], ["type.id"], name="fk_event_type_id_type"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "segment",
        sa.Column("session_id", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("line0", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("lines", sa.BigInteger, nullable=False),
        sa.Column("seq0", sa.BigInteger, nullable=False),
        sa.Column("n", sa.BigInteger, nullable=False),
        sa.Column("t0", sa.BigInteger),
        sa.Column("t1", sa.BigInteger),
        sa.Column("types", sa.LargeBinary, nullable=False),
        sa.Column("codec", sa.Integer, nullable=False),
        sa.Column("raw_len", sa.BigInteger, nullable=False),
        sa.Column("chain", sa.LargeBinary, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("check", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("session_id", "line0", name="pk_segment"),
        sa.ForeignKeyConstraint(["session_id"], ["session.id"], name="fk_segment_session_id_session"),
    )
    op.create_table(
        "artifact",
        sa.Column("id", _Id, nullable=False),
        sa.Column("session_id", sa.BigInteger),
        sa.Column("root", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("sha256", sa.LargeBinary, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("layout", sa.Text, nullable=False),
        sa.Column("lines", sa.BigInteger, nullable=False),
        sa.Column("envelope", sa.LargeBinary, nullable=False),
        sa.Column("check", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_artifact"),
        sa.ForeignKeyConstraint(["session_id"], ["session.id"], name="fk_artifact_session_id_session"),
        sa.UniqueConstraint("root", "path", "version", name="uq_artifact_root_path_version"),
    )
    op.create_index("ix_artifact_session_id", "artifact", ["session_id"])
    op.create_table(
        "artifact_part",
        sa.Column("artifact_id", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("part_no", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("check", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("artifact_id", "part_no", name="pk_artifact_part"),
        sa.ForeignKeyConstraint(
            ["artifact_id"], ["artifact.id"], name="fk_artifact_part_artifact_id_artifact"
        ),
    )


def downgrade() -> None:
    for table in ("artifact_part", "artifact", "segment", "event", "commit_log", "type", "session", "store"):
        op.drop_table(table)
