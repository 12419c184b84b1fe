"""Row policies of a table: an ADMIN's. What would deny or do nothing is refused, not stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import get_args
from uuid import uuid4

from pydantic import JsonValue
from sqlalchemy import delete, insert, select

from context_engine import policy
from context_engine.access import TableRole, VisibleTable
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import rights, rows, rules
from context_engine.adapters.sql.services.base import Service
from context_engine.adapters.sql.services.writing import Transaction, Written
from context_engine.changes import PolicyChanged
from context_engine.errors import InvalidRequest

ROLES: tuple[str, ...] = get_args(TableRole)
"""Roles that a way into a table can be held by."""


@dataclass(frozen=True, slots=True)
class Versioned:
    """The policies of a table, and the table's version."""

    version: int
    policies: policy.TablePolicies


class Policies(Service):
    async def get(self, actor_id: str, workspace_id: str, table_id: str) -> policy.TablePolicies:
        """The table's default and policies, as `set` takes them. An ADMIN's to read."""
        return (await self.versioned(actor_id, workspace_id, table_id)).policies

    async def versioned(self, actor_id: str, workspace_id: str, table_id: str) -> Versioned:
        """As `get`, with the version that `set` may expect."""
        query = select(t.row_policies).where(t.row_policies.c.table_id == table_id)
        table = select(t.tables.c.policy_default, t.tables.c.version).where(
            t.tables.c.id == table_id
        )
        async with self._writer.transaction(actor_id) as tx:
            await rights.on_table(tx, workspace_id, table_id, "admin")
            # The version first: who expects it is refused what was written in between.
            fallback, version = (await tx.connection.execute(table)).one()
            stored = (await tx.connection.execute(query.order_by(t.row_policies.c.id))).all()
        listed: list[JsonValue] = [
            {"subjects": row.subjects, "pred": row.pred, "mode": row.mode} for row in stored
        ]
        found = policy.parse_policies({"default": fallback, "policies": listed})
        return Versioned(version, found)

    async def set(
        self,
        actor_id: str,
        workspace_id: str,
        table_id: str,
        policies: JsonValue | policy.TablePolicies,
        *,
        expected_version: int | None = None,
    ) -> Written:
        """Replaces the table's default and all of its policies.

        `policies`: `{"default": "show_all" | "deny_all", "policies": [{subjects, pred, mode}]}`.
        They may name only what the actor sees. Ids of users are stored as text, 1 as "1".
        The answer is the table's: its id and its version, which `expected_version` means too.
        """
        wanted = parse(policies)
        async with self._writer.transaction(actor_id, workspace_id, exclusive=True) as tx:
            table = await rights.on_table(tx, workspace_id, table_id, "admin")
            wanted = await _checked(tx, workspace_id, table, wanted)
            version = await rows.raise_version(
                tx,
                "table",
                t.tables,
                {"workspace_id": workspace_id, "id": table_id},
                {"policy_default": wanted.default},
                expected_version,
            )
            await tx.connection.execute(
                delete(t.row_policies).where(t.row_policies.c.table_id == table_id)
            )
            if wanted.policies:
                listed = [
                    _row(workspace_id, table_id, place, one)
                    for place, one in enumerate(wanted.policies)
                ]
                await tx.connection.execute(insert(t.row_policies), listed)
            tx.record(PolicyChanged(workspace_id=workspace_id, table_id=table_id, op="updated"))
        return tx.written(table_id, version)


def parse(raw: JsonValue | policy.TablePolicies) -> policy.TablePolicies:
    """Policies out of JSON. Raises `InvalidRequest` naming the place."""
    return raw if isinstance(raw, policy.TablePolicies) else policy.parse_policies(raw)


def _row(
    workspace_id: str, table_id: str, place: int, one: policy.RowPolicy
) -> Mapping[str, object]:
    stored = one.model_dump(mode="json")
    return {
        "id": f"{place:03d}-{uuid4().hex}",  # read in the order of ids: the one they are written in
        "workspace_id": workspace_id,
        "table_id": table_id,
        "subjects": stored["subjects"],
        "pred": stored["pred"],
        "mode": one.mode,
    }


async def _checked(
    tx: Transaction, workspace_id: str, table: VisibleTable, wanted: policy.TablePolicies
) -> policy.TablePolicies:
    """The policies as stored: subjects exist, and all that is named is in the actor's sight."""
    seen = await rules.seen_fields(tx, workspace_id, table, [one.pred for one in wanted.policies])
    checked = policy.check(wanted, table.id, seen.get)
    _check_default(table, wanted)
    for index, one in enumerate(wanted.policies):
        place = f"policies.{index}.subjects"
        for number, subject in enumerate(one.subjects):
            if subject.type == "role" and subject.id not in ROLES:
                raise InvalidRequest(f"use one of {', '.join(ROLES)}", field=f"{place}.{number}.id")
        named = {kind: {s.id for s in one.subjects if s.type == kind} for kind in ("user", "team")}
        await rows.active_members(tx, workspace_id, named["user"], place)
        await _check_teams(tx, workspace_id, named["team"], place)
    return checked


def _check_default(table: VisibleTable, wanted: policy.TablePolicies) -> None:
    """Under `deny_all` something has to open rows: a permissive policy, or a restricted view."""
    opened = any(one.mode == "permissive" for one in wanted.policies)
    opened = opened or any(view.facts.ownership == "restricted" for view in table.views)
    if wanted.default == "deny_all" and not opened:
        raise InvalidRequest(
            "deny_all shows nobody a row without a permissive policy or a restricted view;"
            " add one, or use show_all",
            field="default",
        )


async def _check_teams(
    tx: Transaction, workspace_id: str, team_ids: Iterable[str], place: str
) -> None:
    wanted = set(team_ids)
    if not wanted:
        return
    query = select(t.teams.c.id).where(
        t.teams.c.workspace_id == workspace_id, rows.among(t.teams.c.id, wanted)
    )
    if missing := wanted - set((await tx.connection.execute(query)).scalars()):
        raise InvalidRequest(
            f"the workspace has no team {min(missing)!r}; leave it out", field=place
        )
