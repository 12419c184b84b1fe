"""Who may read and write a field, and what a computed field is made of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

COMPUTED = ("lookup", "rollup", "count", "formula")


def upgrade() -> None:
    op.create_table(
        "field_permissions",
        sa.Column("workspace_id", sa.Text(), nullable=False),
        sa.Column("table_id", sa.Text(), nullable=False),
        sa.Column("field_id", sa.Text(), nullable=False),
        sa.Column("subject_type", sa.Text(), nullable=False),
        sa.Column("subject_id", sa.Text(), nullable=False),
        sa.Column("level", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), server_default="1", nullable=False),
        sa.CheckConstraint(
            "level IN ('none', 'read', 'write')", name=op.f("ck_field_permissions_level")
        ),
        sa.CheckConstraint(
            "subject_type IN ('user', 'team', 'role')",
            name=op.f("ck_field_permissions_subject_type"),
        ),
        *(
            sa.ForeignKeyConstraint(
                [f"{one}_id"],
                [f"{one}s.id"],
                name=op.f(f"fk_field_permissions_{one}_id"),
                ondelete="CASCADE",
            )
            for one in ("workspace", "table")
        ),
        sa.PrimaryKeyConstraint(
            "field_id", "subject_type", "subject_id", name=op.f("pk_field_permissions")
        ),
    )
    op.create_index(
        "ix_field_permissions_table_id",
        "field_permissions",
        ["table_id", "subject_type", "subject_id"],
    )
    op.create_index(
        "ix_field_permissions_subject_id",
        "field_permissions",
        ["workspace_id", "subject_type", "subject_id"],
    )
    op.add_column(
        "fields",
        sa.Column("reads", postgresql.JSONB(), server_default=sa.text("'[]'::jsonb")),
    )
    op.create_check_constraint(op.f("ck_fields_reads"), "fields", "jsonb_typeof(reads) = 'array'")
    op.create_index("ix_fields_linked_table_id", "fields", ["linked_table_id"])
    op.create_index(
        "ix_grants_subject_id", "grants", ["workspace_id", "subject_type", "subject_id"]
    )
    # What they are made of was not kept: nobody sees them until they are imported again.
    fields = sa.table("fields", sa.column("type", sa.Text()), sa.column("reads"))
    op.execute(fields.update().where(fields.c.type.in_(COMPUTED)).values(reads=sa.null()))


def downgrade() -> None:
    op.drop_index("ix_grants_subject_id", "grants")
    op.drop_index("ix_fields_linked_table_id", "fields")
    op.drop_constraint(op.f("ck_fields_reads"), "fields")
    op.drop_column("fields", "reads")
    op.drop_table("field_permissions")
