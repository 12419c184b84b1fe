"""Which rows a way into a table holds: policies and boundaries, read for one user.

They are evaluated over what is stored, without the user's own permissions, and so never in a
circle. What cannot be read denies.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import assert_never

from context_engine import policy, view_filters
from context_engine.access.run import Run
from context_engine.access.ways import Entry
from context_engine.errors import InvalidRequest
from context_engine.facts import PolicyFacts, TableFacts, ViewFacts
from context_engine.models.sections import TOO_SLOW, Role
from context_engine.view_filters import EVERY_ROW, NOT_COMPUTED, RowSet, Sight


@dataclass(frozen=True, slots=True)
class Held:
    """The rows of one way; `uncountable` says why nobody knows them, and it gives none."""

    rows: RowSet
    uncountable: str | None = None


class Late(Exception):
    """A rule asks of the user what was not read in time: whoever is asked denies, for now."""


def rows_held(run: Run, entry: Entry) -> Held:
    """The rows of the table's own way, or of the way through a granted view."""
    try:
        return _held(run, entry)
    except Late as late:
        run.deny(f"rows of {entry.table.id}", str(late))
        return Held(RowSet(False), TOO_SLOW)


def _held(run: Run, entry: Entry) -> Held:
    closing, opening = _policies(run, entry.table, entry.held)
    if entry.view is None:
        return Held(RowSet(_own_rows(run, entry.table, closing, opening)))
    boundary = boundary_of(run, entry.table, entry.view)
    if isinstance(boundary, str):
        run.deny(f"rows of view {entry.view.id}", boundary)
        return Held(RowSet(False), boundary)
    return Held(RowSet(_all(boundary.pred, *closing), boundary.where))


def _own_rows(
    run: Run, table: TableFacts, closing: list[policy.Pred], opening: list[policy.Pred]
) -> policy.Pred:
    """Default or a permissive policy, and every restrictive one."""
    match table.policy_default:
        case "show_all":
            return _all(True, *closing)
        case "deny_all":
            return _all(_any(*opening), *closing)
        case _:
            run.deny(f"rows of {table.id}", "unknown default")
            return False


def _policies(
    run: Run, table: TableFacts, held: Role
) -> tuple[list[policy.Pred], list[policy.Pred]]:
    """What the policies that name the user demand (restrictive), and offer (permissive)."""
    closing: list[policy.Pred] = []
    opening: list[policy.Pred] = []
    for stored in table.policies:
        match policy_for(run, table, held, stored):
            case None:
                pass
            case ("permissive", pred):
                opening.append(pred)
            case (_, pred):
                closing.append(pred)
    return closing, opening


def policy_for(
    run: Run, table: TableFacts, held: Role, stored: PolicyFacts
) -> tuple[str, policy.Pred] | None:
    """One stored policy: (mode, predicate), or None where it names another user.

    Garbage closes the table, whoever it once named. Raises `Late`.
    """
    try:
        parsed = parsed_once(run, stored)
        if not _names(run, held, parsed):
            return None
        meant = run.once(("pred", stored.id), lambda: stored_pred(run, table, parsed.pred))
        return parsed.mode, meant
    except (ValueError, InvalidRequest, policy.Unresolvable) as fault:
        run.garbage(f"policy {stored.id} of table {table.id}", fault)
        run.deny(f"rows of {table.id}", f"policy {stored.id}: {type(fault).__name__}: {fault}")
        return "restrictive", False


def names(run: Run, held: Role, stored: PolicyFacts) -> bool:
    """Whether a stored policy is asked of who holds a way by `held`; one of no grammar is not."""
    try:
        return _names(run, held, parsed_once(run, stored))
    except (ValueError, InvalidRequest):
        return False


def parsed_once(run: Run, stored: PolicyFacts) -> policy.RowPolicy:
    """Raises `InvalidRequest` or `ValueError` for a policy of no grammar."""
    return run.once(
        ("policy", stored.id),
        lambda: policy.parse_policy(stored.subjects, stored.pred, stored.mode),
    )


def _names(run: Run, held: Role, parsed: policy.RowPolicy) -> bool:
    for subject in parsed.subjects:
        match subject.type:
            case "user":
                named = subject.id == run.at.user_id
            case "team":
                named = subject.id in run.facts.team_ids
            case "role":
                named = subject.id == held
            case _:
                assert_never(subject.type)
        if named:
            return True
    return False


def stored_pred(run: Run, table: TableFacts, pred: policy.Pred) -> policy.Pred:
    """A condition over all that is stored, for this user now.

    Raises `policy.Unresolvable` for what it names that is not there, and `Late`.
    """
    # What is missing may come back: that it denies depends on it too.
    with suppress(policy.Unresolvable):
        run.read_by(pred, table)
    if (lacking := policy.lacking(pred, run.fields_of, table.id)) is not None:
        raise policy.Unresolvable(f"there is no {lacking}")
    if not run.late.isdisjoint(policy.attributes(pred)):
        raise Late("what it asks of the user was not read in time")
    run.turns(policy.until(pred, run.operands))
    return _folded(policy.resolve(pred, run.operands, run.fields_of, table.id))


def boundary_of(run: Run, table: TableFacts, view: ViewFacts) -> RowSet | str:
    """What a view's filter lets through as a boundary; or why nobody can tell. Raises `Late`."""
    raw = view.filter
    if raw is None:
        return RowSet(True)
    if view_filters.is_stored(raw):
        made = view_filters.prepare(raw, table.id, run.now, lambda id: _everything(run, id))
        if isinstance(made, str):
            tell_unreadable(run, view)
            return made
        run.reads_cells(made.reads)
        run.reads_cells((id, None) for id in made.sights)
        if any(run.fields_of(id) is None for id in made.sights):
            return NOT_COMPUTED  # of a table that is gone: as with policies, none of it opens rows
        run.turns(made.until)
        return RowSet(True, made)
    try:
        return RowSet(stored_pred(run, table, policy.parse_stored(raw)))
    except (InvalidRequest, policy.Unresolvable):
        tell_unreadable(run, view)
        return NOT_COMPUTED


def tell_unreadable(run: Run, view: ViewFacts) -> None:
    """Tells operators of a filter of no grammar. One that names what is gone is no fault."""
    try:
        (view_filters if view_filters.is_stored(view.filter) else policy).parse(view.filter)
    except InvalidRequest as fault:
        run.garbage(f"filter of view {view.id}", fault)


def _everything(run: Run, table_id: str) -> Sight | None:
    fields = run.fields_of(table_id)
    return None if fields is None else Sight(run.leads_of(table_id), EVERY_ROW)


def _folded(pred: policy.Pred) -> policy.Pred:
    """What says the same of every row is just that: nothing else has to be known then."""
    match pred:
        case policy.All(all=parts):
            return _all(*map(_folded, parts))
        case policy.Any_(any=parts):
            return _any(*map(_folded, parts))
        case policy.Not(not_=inner):
            of = _folded(inner)
            return not of if isinstance(of, bool) else policy.Not(not_=of)
        case _:
            return pred


def _all(*preds: policy.Pred) -> policy.Pred:
    if any(pred is False for pred in preds):
        return False
    parts = tuple(pred for pred in preds if pred is not True)
    if len(parts) == 1:
        return parts[0]
    return policy.All(all=parts) if parts else True


def _any(*preds: policy.Pred) -> policy.Pred:
    if any(pred is True for pred in preds):
        return True
    parts = tuple(pred for pred in preds if pred is not False)
    if len(parts) == 1:
        return parts[0]
    return policy.Any_(any=parts) if parts else False
