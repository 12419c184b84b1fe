"""Who may see what: the only maker of a `VisibleScope`.

The order is law: active membership; the narrowest scope with a grant replaces; at one
scope the user's own grant replaces those of the user's teams, which unite; granted views add ways
of their own; the agent stack narrows; field permissions; row policies; the view's filter last,
for presentation. What cannot be resolved denies, and what is denied looks like what is missing.

Sections and row counts accept only the types of `visible`, and these can only be made here.
"""

from context_engine.access.attributes import lookups
from context_engine.access.coming import led_to
from context_engine.access.denied import Denied
from context_engine.access.explain import Explanation, coordinates_of, explain
from context_engine.access.resolution import resolve
from context_engine.access.roles import RANK, TableRole, higher, lower
from context_engine.access.run import Attributes
from context_engine.access.telling import Question, Step, Stored
from context_engine.access.unresolved import in_order, settle
from context_engine.access.visible import (
    Denial,
    VisibleConversation,
    VisibleLink,
    VisibleScope,
    VisibleTable,
    VisibleTask,
    VisibleView,
    Way,
    rights_of,
)
from context_engine.access.ways import own_role, reach

__all__ = [
    "RANK",
    "Attributes",
    "Denial",
    "Denied",
    "Explanation",
    "Question",
    "Step",
    "Stored",
    "TableRole",
    "VisibleConversation",
    "VisibleLink",
    "VisibleScope",
    "VisibleTable",
    "VisibleTask",
    "VisibleView",
    "Way",
    "coordinates_of",
    "explain",
    "higher",
    "in_order",
    "led_to",
    "lookups",
    "lower",
    "own_role",
    "reach",
    "resolve",
    "rights_of",
    "settle",
]
