"""Domain services: the only way to write the reference domain.

Each checks the actor in the current state, raises the version, puts the change into the outbox
in the same transaction, and marks after the commit and before it answers.
"""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.sql.services.agents import Agents
from context_engine.adapters.sql.services.conversations import Conversations
from context_engine.adapters.sql.services.field_permissions import (
    FieldPermission,
    FieldPermissions,
)
from context_engine.adapters.sql.services.fields import Fields
from context_engine.adapters.sql.services.grants import Grants
from context_engine.adapters.sql.services.imports import Imported, Imports
from context_engine.adapters.sql.services.links import Links
from context_engine.adapters.sql.services.listings import Grant, Listings, Team
from context_engine.adapters.sql.services.marking import (
    ENFORCE_SECONDS,
    LONGEST_LIFE,
    Marker,
    Token,
    Unmarked,
)
from context_engine.adapters.sql.services.members import Member, Members
from context_engine.adapters.sql.services.messages import Messages
from context_engine.adapters.sql.services.organizations import Organizations
from context_engine.adapters.sql.services.policies import Policies
from context_engine.adapters.sql.services.projects import Projects
from context_engine.adapters.sql.services.records import NewRecord, Record, Records
from context_engine.adapters.sql.services.tables import Tables, TableShape
from context_engine.adapters.sql.services.tasks import Tasks
from context_engine.adapters.sql.services.teams import Teams
from context_engine.adapters.sql.services.users import Users
from context_engine.adapters.sql.services.views import Views
from context_engine.adapters.sql.services.workflows import Workflows
from context_engine.adapters.sql.services.workspaces import Workspaces
from context_engine.adapters.sql.services.writing import Writer, Written

__all__ = [
    "DomainServices",
    "FieldPermission",
    "Grant",
    "Imported",
    "Marker",
    "Member",
    "NewRecord",
    "Record",
    "TableShape",
    "Team",
    "Token",
    "Unmarked",
    "Written",
]


class DomainServices:
    """Every service over one database and one cache to mark."""

    def __init__(
        self,
        database: AsyncEngine,
        cache: Marker,
        *,
        enforce_seconds: float = ENFORCE_SECONDS,
        entry_life: timedelta = LONGEST_LIFE,
        ids_as_given: bool = False,
    ) -> None:
        """`enforce_seconds`: how long a change of access waits to be enforced before it is told
        that it is not yet. `entry_life`: the longest that anything cached may be served.

        `ids_as_given`: what is made in a workspace has the very id that is given for it, for
        operators' tools, tests and loads. Who may choose ids so learns which are taken by what
        they do not see; else the id that is stored is made of the given one, the actor and the
        place (`Writer.id_for`), and the answer names it.
        """
        writer = Writer(
            database,
            cache,
            enforce_seconds=enforce_seconds,
            entry_life=entry_life,
            ids_as_given=ids_as_given,
        )
        self.organizations = Organizations(writer)
        self.users = Users(writer)
        self.workspaces = Workspaces(writer)
        self.members = Members(writer)
        self.teams = Teams(writer)
        self.grants = Grants(writer)
        self.listings = Listings(writer)
        self.agents = Agents(writer)
        self.tables = Tables(writer)
        self.fields = Fields(writer)
        self.field_permissions = FieldPermissions(writer)
        self.links = Links(writer)
        self.views = Views(writer)
        self.policies = Policies(writer)
        self.records = Records(writer)
        self.projects = Projects(writer)
        self.tasks = Tasks(writer)
        self.workflows = Workflows(writer)
        self.conversations = Conversations(writer)
        self.messages = Messages(writer)
        self.imports = Imports(writer)
