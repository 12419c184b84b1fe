"""A row of the outbox that its topic refused is put off: how often it was tried, and until when."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "outbox", sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False)
    )
    op.add_column("outbox", sa.Column("retry_at", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    op.drop_column("outbox", "retry_at")
    op.drop_column("outbox", "attempts")
