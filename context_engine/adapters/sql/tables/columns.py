"""What the tables have in common: the metadata, and columns that many have."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, DateTime, ForeignKey, MetaData, Text, func, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

ROLES = "('none', 'viewer', 'commenter', 'editor', 'builder', 'admin')"


def id_() -> Column[str]:
    return Column("id", Text, primary_key=True)


def of(name: str, target: str, *, primary: bool = False, null: bool = False) -> Column[str]:
    """A reference that goes away with what it refers to."""
    return Column(
        name,
        Text,
        ForeignKey(f"{target}.id", ondelete="CASCADE"),
        primary_key=primary,
        nullable=null,
    )


def version() -> Column[int]:
    return Column("version", BigInteger, nullable=False, server_default="1")


def created() -> Column[object]:
    return Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now())


def text_list(name: str, *, null: bool = False) -> Column[list[str]]:
    default = None if null else text("'{}'::text[]")
    return Column(name, ARRAY(Text), nullable=null, server_default=default)


def json_(name: str, default: str) -> Column[object]:
    return Column(name, JSONB, nullable=False, server_default=text(f"'{default}'::jsonb"))
