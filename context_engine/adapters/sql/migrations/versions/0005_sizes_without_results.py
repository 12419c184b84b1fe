"""A conversation's size is that of what people and the assistant wrote, of no tool's result."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

RECOUNT = """UPDATE conversations SET total_chars = (
    SELECT coalesce(sum(chars), 0) FROM messages WHERE conversation_id = conversations.id{})"""


def upgrade() -> None:
    op.execute(RECOUNT.format(" AND role <> 'tool'"))


def downgrade() -> None:
    op.execute(RECOUNT.format(""))
