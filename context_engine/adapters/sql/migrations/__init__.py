"""Alembic's migrations, oldest first in `versions/`."""
