"""A workspace in which whatever has a name or a value has a canary in it.

Bob is a VIEWER. `shown` are the canaries that the rules leave in his sight, `hidden` all others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any

from pydantic import JsonValue
from sqlalchemy import insert, update
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import DomainServices
from context_engine.changes import AnyChange

ANA, BOB = "ana", "bob"
CANARY = re.compile(r"cny[0-9a-f]{12}")


def canaries_in(*texts: bytes | str) -> set[str]:
    return {
        found
        for text in texts
        for found in CANARY.findall(text if isinstance(text, str) else text.decode("latin-1"))
    }


@dataclass
class Aviary:
    """Makes the workspace `w`, and knows which of its canaries Bob may hear."""

    services: DomainServices
    database: AsyncEngine
    shown: set[str] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)
    choices: list[str] = field(default_factory=list)
    """Of the two fields of choices; the last is in no cell."""

    def open(self) -> str:
        return self._new(self.shown)

    def shut(self) -> str:
        return self._new(self.hidden)

    def _new(self, kept: set[str]) -> str:
        kept.add(made := f"cny{token_hex(6)}")
        return f"a {made} b"

    async def furnish(self) -> None:
        s = self.services
        await s.organizations.create("op", name=self.shut(), id="org")
        for user, name in ((ANA, self.shut()), (BOB, self.open())):
            await s.users.create("op", name=name, email=f"{self.shut()[2:-2]}@x.example", id=user)
        await s.workspaces.create(
            "op", name=self.open(), maker_id=ANA, organization_id="org", id="w"
        )
        await s.members.add(ANA, "w", BOB, role="viewer")
        await s.teams.create(ANA, "w", name=self.shut(), id="team")
        await self._tables()
        await self._views()
        await self._rules()
        await self._work()
        await self._talk()
        await self._fault()

    async def _tables(self) -> None:
        s = self.services
        for table, name in (("seen", self.open), ("dark", self.shut)):
            await s.tables.create(
                ANA, "w", name=name(), id=table, primary_id=f"{table}-name", primary_name=name()
            )
        self.choices = [self.shut() for _ in range(3)]
        for id, name in (("kind", self.open()), ("pay", self.shut())):
            await s.fields.create(
                ANA, "w", "seen", name=name, type="select", options={"choices": self.choices}, id=id
            )
        await s.links.create(
            ANA, "w", "seen", name=self.open(), linked_table_id="dark", id="out",
            back_name=self.shut(), back_id="back",
        )  # fmt: skip
        await self.computed("seen", "sum", ("seen", "pay"))
        await self.computed("seen", "far", ("seen", "out"), ("dark", "dark-name"))
        for n in range(3):
            await s.records.create(ANA, "w", "dark", {"dark-name": self.shut()}, id=f"d{n}")
            cells = {"seen-name": self.shut(), "kind": self.choices[0]}
            await s.records.create(
                ANA, "w", "seen", {**cells, "pay": self.choices[1]}, id=f"r{n}",
                links={"out": [f"d{n}"]},
            )  # fmt: skip

    async def computed(self, table: str, id: str, *reads: tuple[str, str]) -> None:
        """A field of a name that is hidden, as what it is made of is."""
        row = {"id": id, "name": self.shut(), "type": "formula", "workspace_id": "w"}
        listed = [list(one) for one in reads]
        async with self.database.begin() as connection:
            await connection.execute(
                insert(t.fields), {**row, "table_id": table, "position": 9, "reads": listed}
            )

    async def _fault(self) -> None:
        """A table that no request can be answered over: its field is not stored as fields are."""
        await self.services.tables.create(
            ANA, "w", name=self.shut(), id="faulty", primary_id="f", primary_name=self.shut()
        )
        async with self.database.begin() as connection:
            broken = update(t.fields).where(t.fields.c.id == "f").values(reads=[self.shut()])
            await connection.execute(broken)

    async def _views(self) -> None:
        s = self.services
        paid = self._equal("field:pay")
        await s.views.create(ANA, "w", "seen", name=self.open(), id="all", filter=paid)
        for id, ownership in (("own", "personal"), ("narrow", "restricted")):
            await s.views.create(
                ANA, "w", "seen", name=self.shut(), id=id, ownership=ownership, filter=paid
            )
        await s.views.create(ANA, "w", "dark", name=self.shut(), id="darks")

    async def _rules(self) -> None:
        """What Bob may not see, told in rules that hold canaries themselves."""
        s = self.services
        await self.policy(self._equal("field:kind"))
        garbage = {"cmp": {"ref": self.shut(), "op": self.shut(), self.shut(): self.shut()}}
        one = {"id": "garbage", "mode": "restrictive", "pred": garbage}
        subjects = [{"type": "user", "id": BOB}]
        await s.tables.create(
            ANA, "w", name=self.open(), id="broken", primary_id="b", primary_name=self.open()
        )
        async with self.database.begin() as connection:
            row = {**one, "subjects": subjects, "workspace_id": "w", "table_id": "broken"}
            await connection.execute(insert(t.row_policies), row)
        await s.field_permissions.set(
            ANA, "w", "seen", "pay", subject_type="user", subject_id=BOB, level="none"
        )
        await s.grants.set(
            ANA, "w", subject_type="user", subject_id=BOB, scope_type="table", scope_id="dark",
            role="none",
        )  # fmt: skip

    async def policy(self, pred: JsonValue) -> Sequence[AnyChange]:
        subjects: list[JsonValue] = [{"type": "user", "id": BOB}]
        one: JsonValue = {"mode": "restrictive", "subjects": subjects, "pred": {"not": pred}}
        return (await self.services.policies.set(ANA, "w", "seen", {"policies": [one]})).changes

    def _equal(self, ref: str) -> JsonValue:
        return {"cmp": {"ref": ref, "op": "eq", "operand": {"literal": self.choices[-1]}}}

    async def _work(self) -> None:
        s = self.services
        await s.projects.create(ANA, "w", name=self.open(), status=self.open(), id="project")
        await s.projects.create(
            ANA, "w", name=self.shut(), status=self.shut(), private=True, id="closed"
        )
        await s.tasks.create(ANA, "w", title=self.open(), project_id="project", id="task")
        await s.tasks.create(
            ANA, "w", title=self.shut(), project_id="project", table_id="dark", record_id="d0",
            id="dark-task",
        )  # fmt: skip
        await s.workflows.create(ANA, "w", name=self.open(), status=self.open(), id="flow")
        await s.agents.create(ANA, "w", name=self.open(), max_role="viewer", id="agent")

    async def _talk(self) -> None:
        s = self.services
        await s.conversations.open(ANA, "w", title=self.open(), participant_ids=[BOB], id="talk")
        await s.conversations.open(ANA, "w", title=self.shut(), id="theirs")
        await s.messages.add(ANA, "w", "theirs", self.shut())
        for _ in range(25):
            await s.messages.add(ANA, "w", "talk", self.open())
        call = {"id": "call", "name": "rows", "arguments": {"of": self.shut()}}
        ran = {"table_ids": ["dark"]}
        await s.messages.add(ANA, "w", "talk", "", role="assistant", tool_calls=[call], **ran)  # type: ignore[arg-type]
        await s.messages.add(
            ANA,
            "w",
            "talk",
            self.shut(),
            role="tool",
            tool_call_id="call",
            **ran,  # type: ignore[arg-type]
        )

    # -- what others do ----------------------------------------------------------------------

    async def change(self) -> list[AnyChange]:
        """Changes by Ana of what Bob sees and of what he does not, with new canaries in them."""
        s, w = self.services, "w"
        written: list[Any] = [
            await s.tables.rename(ANA, w, "dark", name=self.shut()),
            await s.fields.update(ANA, w, "seen", "pay", name=self.shut()),
            await s.records.update(ANA, w, "seen", "r0", {"seen-name": self.shut()}),
            await s.records.create(ANA, w, "dark", {"dark-name": self.shut()}),
            await s.views.update(ANA, w, "seen", "narrow", name=self.shut()),
            await s.projects.update(ANA, w, "closed", name=self.shut()),
            await s.tasks.update(ANA, w, "dark-task", title=self.shut()),
            await s.teams.rename(ANA, w, "team", name=self.shut()),
            await s.users.update("op", ANA, name=self.shut()),
            await s.organizations.rename("op", "org", name=self.shut()),
            await s.messages.add(ANA, w, "theirs", self.shut()),
            await s.messages.add(ANA, w, "talk", self.open()),
        ]
        told = [change for one in written for change in one.changes]
        return [*told, *await self.policy(self._equal("field:kind"))]
