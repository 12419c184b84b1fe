"""Who may see what: the only maker of a `VisibleScope`.

The order is law: active membership; the narrowest scope with a grant replaces; at one
scope the user's own grant replaces those of the user's teams, which unite; the agent stack
narrows; row policies; the view's filter last, for presentation. What cannot be resolved denies,
and what is denied looks like what is missing.

Sections and row counts accept only the types of `visible`, and these can only be made here.
"""

from context_engine.access.denied import Denied
from context_engine.access.resolution import resolve
from context_engine.access.roles import RANK, TableRole, higher, lower
from context_engine.access.unresolved import in_order, settle
from context_engine.access.visible import (
    Denial,
    VisibleConversation,
    VisibleScope,
    VisibleTable,
    VisibleTask,
    VisibleView,
    rights_of,
)

__all__ = [
    "RANK",
    "Denial",
    "Denied",
    "TableRole",
    "VisibleConversation",
    "VisibleScope",
    "VisibleTable",
    "VisibleTask",
    "VisibleView",
    "higher",
    "in_order",
    "lower",
    "resolve",
    "rights_of",
    "settle",
]
