"""Who may do what: every action by every role, and the tables of the documentation that say so."""

from tests.support.matrix.page import marked, tables
from tests.support.matrix.trying import Marks, Trial
from tests.support.matrix.world import furnish

__all__ = ["Marks", "Trial", "furnish", "marked", "tables"]
