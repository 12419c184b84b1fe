"""What a computed field of an exported workspace is made of, and that nothing is left out."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from context_engine.adapters.baserow import read_workspace
from context_engine.loading import NewField, NewWorkspace
from tests.support import exported as x
from tests.support.shared_data import WORKSPACES, workspace_file

COMPUTED = ("lookup", "rollup", "count", "formula")
ODD = r"It's \"odd\", really"


def _with(formula: object, **more: object) -> NewWorkspace:
    """The small workspace with one more field in its table of tasks."""
    document = x.exported()
    fields = x.tables(document)[1]["fields"]
    fields.append(
        {"id": 299, "type": "formula", "name": "Made", "order": 9, "primary": False}
        | {"formula": formula, **more}
    )
    fields.append({"id": 298, "type": "text", "name": ODD, "order": 8, "primary": False})
    return read_workspace(x.as_bytes(document))


def _reads(made: NewWorkspace, id: int = 299) -> set[tuple[int, int]] | None:
    """The numbers of the tables and fields that a field is made of."""
    (found,) = (one for one in made.fields if one.id == f"small-f{id}")
    if found.reads is None:
        return None
    return {
        (int(table.removeprefix("small-t")), int(field.removeprefix("small-f")))
        for table, field in found.reads
    }


HOURS, DUE, OWNER = (x.TASKS, x.HOURS), (x.TASKS, x.DUE), (x.TASKS, x.OWNER)
NAME, LOAD, OWNED, TITLE = (
    (x.PEOPLE, x.NAME), (x.PEOPLE, x.LOAD), (x.PEOPLE, x.OWNED), (x.TASKS, x.TITLE),
)  # fmt: skip


@pytest.mark.parametrize(
    ("formula", "reads"),
    [
        ("field('Hours') * 2", {HOURS}),
        ("FIELD( \"Hours\" ) - field(\n'Due')", {HOURS, DUE}),
        ("lookup('Owner', 'Name')", {OWNER, NAME}),
        ("sum(LOOKUP(/* whose, ever */ 'Owner','Load'))", {OWNER, LOAD}),
        ("field('Owner')", {OWNER, NAME}),
        ("count(field('Owner'))", {OWNER}),
        ("count(field('Owner') = 'Ann')", {OWNER, NAME}),
        ("lookup('Owner','Owns')", {OWNER, OWNED, TITLE}),
        ("concat('field(', \"field('Due')\", field('Hours'))", {HOURS}),
        ("field('Hours') // field('Due')", {HOURS}),
        (r"""field('It\'s \"odd\", really')""", {(x.TASKS, 298)}),
        ("today()", set()),
        ("row_id()", set()),
    ],
)
def test_a_formula_is_made_of_the_fields_that_it_names(
    formula: str, reads: set[tuple[int, int]]
) -> None:
    """Whatever the case, the quotes and the comments; names in texts are no references."""
    assert _reads(_with(formula)) == reads


@pytest.mark.parametrize(
    "formula",
    [
        "field('Gone')",
        "field('hours')",
        "lookup('Owner','Hours')",
        "lookup('Hours','Name')",
        "lookup('Gone','Name')",
        "lookup('Owner')",
        "field(concat('Ho','urs'))",
        "field_by_id(203)",
        "concat('open, field('Hours'))",
        "field('Hours",
        "field",
        None,
        7,
    ],
)
def test_a_formula_that_cannot_be_followed_is_nobodys(formula: object) -> None:
    """Its sources are unknown, which denies, and the report says so."""
    made = _with(formula)
    assert _reads(made) is None
    assert any(gap.field == "Made" and "nobody sees it" in gap.what for gap in made.gaps)


def test_two_fields_of_one_name_are_both_sources() -> None:
    document = x.exported()
    fields = x.tables(document)[1]["fields"]
    fields[4]["name"] = "Hours"
    fields.append(
        {"id": 299, "type": "formula", "name": "Made", "order": 9, "primary": False}
        | {"formula": "field('Hours')"}
    )
    assert _reads(read_workspace(x.as_bytes(document))) == {HOURS, DUE}


def test_lookups_rollups_and_counts_are_made_of_a_link_and_what_is_behind_it() -> None:
    """A count says how many rows there are, and nothing of them; a link's value is its names."""
    assert _reads(_with("1"), x.LOAD) == {OWNED, HOURS}
    for type, target, reads in (
        ("count", None, {OWNER}),
        ("lookup", x.NAME, {OWNER, NAME}),
        ("lookup", x.OWNED, {OWNER, OWNED, TITLE}),
    ):
        made = _with(None, type=type, through_field_id=x.OWNER, target_field_id=target)
        assert _reads(made) == reads, type
    assert _reads(_with("1"), x.HOURS) == set()


@pytest.mark.parametrize("name", WORKSPACES)
def test_every_computed_field_of_the_real_workspaces_is_followed(name: str) -> None:
    """None is unknown; each reads fields that are there, and none itself through others."""
    made = read_workspace(workspace_file(name).read_bytes())
    fields = {one.id: one for one in made.fields}
    computed = [one for one in made.fields if one.type in COMPUTED]
    assert len(computed) >= 10
    for one in computed:
        assert one.reads is not None, one.name
        assert all(fields[id].table_id == table for table, id in one.reads)
        assert _all_behind(one, fields).isdisjoint({one.id}), one.name
    assert all(one.reads == () for one in made.fields if one.type not in COMPUTED)
    assert sum(one.reads == () for one in computed) <= 5  # today(), row_id()


def _all_behind(field: NewField, fields: Mapping[str, NewField]) -> set[str]:
    found: set[str] = set()
    todo = [field]
    while todo:
        new = {id for _, id in todo.pop().reads or ()} - found
        found |= new
        todo += [fields[id] for id in new]
    return found
