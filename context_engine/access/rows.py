"""Which rows of a table are in sight: its policies, read for one user."""

from __future__ import annotations

from context_engine import policy
from context_engine.access.run import Run
from context_engine.errors import InvalidRequest
from context_engine.facts import PolicyFacts, TableFacts
from context_engine.models.sections import Role


def rows_in_sight(run: Run, table: TableFacts, role: Role) -> policy.Pred:
    """Rows of the table's way in: default or a permissive policy, and every restrictive one.

    `role` is the one by which the way in is held.
    """
    read = [_read(run, table, role, stored) for stored in table.policies]
    preds = [p for p in read if p is not None]
    opening: list[policy.Pred] = [p for mode, p in preds if mode == "permissive"]
    closing = [p for mode, p in preds if mode == "restrictive"]
    if table.policy_default == "show_all":
        opening = [True]
    elif table.policy_default != "deny_all":
        run.deny(f"rows of {table.id}", "unknown default")
        return False
    if any(p is False for p in closing) or not opening:
        return False
    base = opening[0] if len(opening) == 1 else policy.Any_(any=tuple(opening))
    if not closing:
        return base
    return policy.All(all=(base, *closing))


def _read(
    run: Run, table: TableFacts, role: Role, stored: PolicyFacts
) -> tuple[str, policy.Pred] | None:
    """One stored policy: (mode, predicate), or None where it names another user.

    Garbage denies: as restrictive it closes the table, as permissive it opens nothing.
    """
    try:
        parsed = policy.RowPolicy.model_validate(
            {"subjects": stored.subjects, "pred": policy.parse(stored.pred), "mode": stored.mode}
        )
        if not _names(run, role, parsed):
            return None
        return parsed.mode, run.resolved(parsed.pred, table)
    except (ValueError, InvalidRequest, policy.Unresolvable) as fault:
        run.deny(f"rows of {table.id}", f"policy {stored.id}: {type(fault).__name__}")
        return "restrictive", False


def _names(run: Run, role: Role, parsed: policy.RowPolicy) -> bool:
    mine = {("user", run.at.user_id), ("role", role)}
    mine |= {("team", team) for team in run.facts.team_ids}
    return any((s.type, s.id) in mine for s in parsed.subjects)
