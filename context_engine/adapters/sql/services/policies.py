"""Row policies of a table: an ADMIN's. What could not be enforced is refused, never stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import get_args
from uuid import uuid4

from pydantic import JsonValue, ValidationError
from sqlalchemy import delete, insert, select

from context_engine import policy
from context_engine.access import TableRole
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import fields, rights, rows
from context_engine.adapters.sql.services.base import Service
from context_engine.adapters.sql.services.cells import FieldSpec
from context_engine.adapters.sql.services.writing import Transaction, Written
from context_engine.changes import PolicyChanged
from context_engine.errors import InvalidRequest
from context_engine.nearest import among

ROLES: tuple[str, ...] = get_args(TableRole)
"""Roles that a way into a table can be held by."""


class Policies(Service):
    async def get(self, actor_id: str, workspace_id: str, table_id: str) -> policy.TablePolicies:
        """The table's default and policies, as `set` takes them. An ADMIN's to read."""
        query = select(t.row_policies).where(t.row_policies.c.table_id == table_id)
        default = select(t.tables.c.policy_default).where(t.tables.c.id == table_id)
        async with self._writer.transaction(actor_id) as tx:
            await rights.on_table(tx, workspace_id, table_id, "admin")
            found = (await tx.connection.execute(query.order_by(t.row_policies.c.id))).all()
            fallback = (await tx.connection.execute(default)).scalar_one()
        listed: list[JsonValue] = [
            {"subjects": row.subjects, "pred": row.pred, "mode": row.mode} for row in found
        ]
        return policy.TablePolicies.model_validate({"default": fallback, "policies": listed})

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
        The answer is the table's: its id and its version, which `expected_version` means too.
        """
        wanted = parse(policies)
        async with self._writer.transaction(actor_id, workspace_id, exclusive=True) as tx:
            await rights.on_table(tx, workspace_id, table_id, "admin")
            await _check(tx, workspace_id, table_id, wanted)
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
                listed = [_row(workspace_id, table_id, one) for one in wanted.policies]
                await tx.connection.execute(insert(t.row_policies), listed)
            tx.record(PolicyChanged(workspace_id=workspace_id, table_id=table_id, op="updated"))
        return tx.written(table_id, version)


def parse(raw: JsonValue | policy.TablePolicies) -> policy.TablePolicies:
    """Policies out of JSON, of which this version can enforce all. Raises `InvalidRequest`."""
    wanted = raw if isinstance(raw, policy.TablePolicies) else _validated(raw)
    for index, one in enumerate(wanted.policies):
        policy.check_supported(one)
        if one.mode == "permissive" and wanted.default == "show_all":
            raise InvalidRequest(
                "opens rows that show_all shows already, so it is without effect;"
                " use deny_all, or make it restrictive",
                field=f"policies.{index}.mode",
            )
    return wanted


def _validated(raw: JsonValue) -> policy.TablePolicies:
    for pred in _listed(raw):
        policy.parse(pred)
    try:
        return policy.TablePolicies.model_validate(raw)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in fault["loc"]) or "policies"
        raise InvalidRequest(fault["msg"], field=place) from error


def _listed(raw: JsonValue) -> list[JsonValue]:
    """The predicates of raw policies: their depth is bounded before anything recurses."""
    listed = raw.get("policies", []) if isinstance(raw, dict) else []
    if not isinstance(listed, list):
        return []
    return [one["pred"] for one in listed if isinstance(one, dict) and "pred" in one]


def _row(workspace_id: str, table_id: str, one: policy.RowPolicy) -> Mapping[str, object]:
    stored = one.model_dump(mode="json")
    return {
        "id": uuid4().hex,
        "workspace_id": workspace_id,
        "table_id": table_id,
        "subjects": stored["subjects"],
        "pred": stored["pred"],
        "mode": one.mode,
    }


async def _check(
    tx: Transaction, workspace_id: str, table_id: str, wanted: policy.TablePolicies
) -> None:
    """Subjects and fields exist, and every comparison can be true of its field."""
    known = await fields.specs(tx, table_id)
    subjects = {subject for one in wanted.policies for subject in one.subjects}
    for one in wanted.policies:
        for comparison in policy.comparisons(one.pred):
            _check_comparison(known, comparison)
    for subject in subjects:
        if subject.type == "role" and subject.id not in ROLES:
            raise InvalidRequest(f"use one of {', '.join(ROLES)}", field="subjects.id")
    users = {subject.id for subject in subjects if subject.type == "user"}
    await rows.active_members(tx, workspace_id, users, "subjects.id")
    await _check_teams(tx, workspace_id, {s.id for s in subjects if s.type == "team"})


def _check_comparison(known: Mapping[str, FieldSpec], comparison: policy.Comparison) -> None:
    if not comparison.ref.startswith("field:"):
        if comparison.op != "eq":
            raise InvalidRequest("who created a row is one user; use eq", field="pred.cmp.op")
        return
    spec = known.get(comparison.ref.removeprefix("field:"))
    if spec is None:
        raise InvalidRequest(
            f"the table has no such field, and a policy that names a missing field denies all;"
            f" {among(comparison.ref, [f'field:{id}' for id in known])}",
            field="pred.cmp.ref",
        )
    if spec.type not in ("user", "text"):
        raise InvalidRequest(
            f"{comparison.ref!r} is a {spec.type} field and never holds a user; name a user field",
            field="pred.cmp.ref",
        )
    several = spec.options.get("multiple") is True
    if (comparison.op == "has_any") != several:
        raise InvalidRequest(
            f"{comparison.ref!r} holds " + ("several; use has_any" if several else "one; use eq"),
            field="pred.cmp.op",
        )


async def _check_teams(tx: Transaction, workspace_id: str, team_ids: Iterable[str]) -> None:
    wanted = set(team_ids)
    query = select(t.teams.c.id).where(
        t.teams.c.workspace_id == workspace_id, t.teams.c.id.in_(wanted)
    )
    if missing := wanted - set((await tx.connection.execute(query)).scalars()):
        raise InvalidRequest(
            f"the workspace has no team {min(missing)!r}; leave it out", field="subjects.id"
        )
