"""The trace of who wrote a change goes along with it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("outbox", sa.Column("trace", JSONB()))


def downgrade() -> None:
    op.drop_column("outbox", "trace")
