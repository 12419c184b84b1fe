"""Views keep their sorts, and what else their product knows of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name, default in (("sorts", "'[]'::jsonb"), ("options", "'{}'::jsonb")):
        op.add_column(
            "views",
            sa.Column(name, postgresql.JSONB(), server_default=sa.text(default), nullable=False),
        )


def downgrade() -> None:
    op.drop_column("views", "options")
    op.drop_column("views", "sorts")
