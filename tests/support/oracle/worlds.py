"""Whole workspaces, drawn: small, and full of what goes wrong."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.support.oracle import draws as d
from tests.support.oracle import model as m
from tests.support.oracle.dialogues import conversations

ROLES = ("none", "viewer", "commenter", "editor", "builder", "admin")
LEVELS = ("none", "read", "write")


@st.composite
def workspaces(draw: st.DrawFn) -> m.Workspace:
    """A workspace `w` of at most 4 users, 3 teams and 4 tables of 12 records."""
    names = d.Canaries(draw(st.integers(0, 2**32 - 1)))
    users = tuple(_user(draw, names, n) for n in range(draw(st.integers(1, 4))))
    ids = [user.id for user in users]
    teams = tuple(
        m.Team(f"g{n}", names.named("Team"), tuple(d.some(draw, ids, 4)))
        for n in range(draw(st.integers(0, 3)))
    )
    tables = _schema(draw, names)
    values = _values(tables, users, names)
    tables = [_rules(draw, names, table, tables, values, users, teams) for table in tables]
    tables = [_filled(draw, table, values, ids) for table in tables]
    grants = _grants(draw, tables, ids, teams)
    members = tuple(
        m.Member(
            id,
            draw(st.sampled_from(["viewer", "defer", *ROLES[2:], "none"])),
            draw(st.sampled_from([1] * 15 + [0])) > 0,
        )
        for id in ids
        if draw(st.sampled_from([1] * 15 + [0]))
    )
    return m.Workspace(
        id="w",
        name=names.named("Workspace"),
        organization_id=draw(st.sampled_from(["o", None])),
        organizations=(
            m.Organization(
                "o", names.named("Org"), tuple((id, "member") for id in d.some(draw, ids))
            ),
        ),
        users=users,
        members=members,
        teams=teams,
        grants=grants,
        agents=_agents(draw, names, tables),
        tables=tuple(tables),
        links=_links(draw, tables),
        workflows=(m.Workflow("f", names.named("Workflow")),),
        **_work(draw, names, tables, ids),
        conversations=conversations(draw, names, tables, ids),
        earlier=_earlier(draw, tables, grants, teams, members, ids),
        bounds=m.Bounds(
            count=draw(st.sampled_from([10_000, 1, 2, 4])),
            messages=draw(st.sampled_from([20, 1, 2, 5])),
        ),
    )


def _user(draw: st.DrawFn, names: d.Canaries, n: int) -> m.User:
    email = draw(st.sampled_from([None, f"u{n}@example.org", f"U{n}@Example.org"]))
    return m.User(
        f"u{n}",
        names.named("User"),
        email,
        email and email.lower(),
        "en",
        draw(st.sampled_from([None, *d.ZONES])),
        active=draw(st.sampled_from([True] * 19 + [False])),
    )


# -- tables ------------------------------------------------------------------------------------


def _schema(draw: st.DrawFn, names: d.Canaries) -> list[m.Table]:
    """Tables with stored fields, then links among them, then what is computed of all that."""
    tables = []
    for n in range(draw(st.sampled_from([2, 3, 4, 1]))):
        types = draw(st.lists(st.sampled_from(d.STORED), max_size=5))
        fields = tuple(
            m.Field(
                f"t{n}.f{k}",
                names.named(type),
                type,
                primary=k == 0,
                options={"multiple": draw(st.booleans())} if type == "user" else None,
            )
            for k, type in enumerate(types)
        )
        trashed = draw(st.integers(0, 7)) == 0
        tables.append(m.Table(f"t{n}", names.named("Table"), trashed=trashed, fields=fields))
    for n in range(draw(st.integers(0, 3))):
        _link_field(draw, names, tables, n)
    return [_computed(draw, names, table, tables) for table in tables]


def _link_field(draw: st.DrawFn, names: d.Canaries, tables: list[m.Table], n: int) -> None:
    """A link from a table to any, with another side or without one."""
    places = st.integers(0, len(tables) - 1)
    start, end = draw(places), draw(places)
    both = draw(st.booleans()) and start != end
    there, back = f"l{n}", f"l{n}.back"
    one = m.Field(
        there,
        names.named("link"),
        "link",
        linked_table_id=tables[end].id,
        linked_field_id=back if both else None,
        cardinality=draw(st.sampled_from(["one", "many"])),
    )
    tables[start] = replace(tables[start], fields=(*tables[start].fields, one))
    if both:
        other = m.Field(
            back,
            names.named("link"),
            "link",
            linked_table_id=tables[start].id,
            linked_field_id=there,
        )
        tables[end] = replace(tables[end], fields=(*tables[end].fields, other))


def _computed(draw: st.DrawFn, names: d.Canaries, table: m.Table, tables: list[m.Table]) -> m.Table:
    """Fields over fields of any table: some over each other, in circles, or over nobody knows."""
    known = [(one.id, field.id) for one in tables for field in one.fields]
    made = [f"{table.id}.c{n}" for n in range(draw(st.integers(0, 2)))]
    known += [(table.id, id) for id in made] + [(table.id, "nowhere")]
    fields = tuple(
        m.Field(
            id,
            names.named("computed"),
            draw(st.sampled_from(d.COMPUTED)),
            reads=None if draw(st.integers(0, 9)) == 0 else tuple(d.some(draw, known, 3)),
        )
        for id in made
    )
    return replace(table, fields=(*table.fields, *fields))


def _values(
    tables: list[m.Table], users: tuple[m.User, ...], names: d.Canaries
) -> dict[str, list[Any]]:
    """What cells hold and predicates compare with, by field: a few values, so that they meet."""
    ids, emails = [user.id for user in users], [user.email for user in users if user.email]
    found = {}
    for field in (field for table in tables for field in table.fields):
        texts = [names.named(text) for text in ("a", "B")]
        found[field.id] = d.pool(field, ids, emails, texts)
    found |= {"created_by": ids, "updated_by": ids, "created_at": d.TIMES}
    return found


def _filled(
    draw: st.DrawFn, table: m.Table, values: dict[str, list[Any]], users: list[str]
) -> m.Table:
    """Records whose cells fit, do not fit, or are missing.

    How many is drawn, what is in them comes of one drawn number: cell by cell they would use up
    what an example may draw, and leave nothing for the rules.
    """
    chance = Random(draw(st.integers(0, 2**16)))
    stored = [field for field in table.fields if field.type in d.STORED]
    records = []
    for n in range(draw(st.sampled_from([12, 7, 5, 3, 1, 0]))):
        cells = {
            f.id: chance.choice(d.ODD if chance.random() < 0.2 else values[f.id])
            for f in stored
            if chance.random() < 0.85
        }
        records.append(
            m.Record(
                f"{table.id}.r{n}",
                cells,
                d.NOW + timedelta(minutes=chance.choice([-1500, -271, -270, 0, 1])),
                created_by=chance.choice([*users, None]),
                updated_by=chance.choice([*users, None]),
                deleted=chance.random() < 0.1,
            )
        )
    return replace(table, records=tuple(records))


def _links(draw: st.DrawFn, tables: list[m.Table]) -> tuple[m.Link, ...]:
    """Links of every field, live or not at either end; with another side, on both."""
    chance = Random(draw(st.integers(0, 2**16)))
    by_id = {table.id: table for table in tables}
    found: list[m.Link] = []
    for table in tables:
        for field in (field for field in table.fields if field.type == "link"):
            if field.id.endswith(".back"):
                continue
            there = [record.id for record in by_id[field.linked_table_id or ""].records]
            most = min(1 if field.cardinality == "one" else 3, len(there))
            for record in table.records:
                for other in chance.sample(there, chance.randint(0, most)):
                    found.append(m.Link(field.id, record.id, other))
                    if field.linked_field_id is not None:
                        found.append(m.Link(field.linked_field_id, other, record.id))
    return tuple(found)


# -- who may what ------------------------------------------------------------------------------


def _rules(
    draw: st.DrawFn,
    names: d.Canaries,
    table: m.Table,
    tables: list[m.Table],
    values: dict[str, list[Any]],
    users: tuple[m.User, ...],
    teams: tuple[m.Team, ...],
) -> m.Table:
    """A table's views, row policies and field permissions."""
    subjects = [("user", user.id) for user in users] + [("team", team.id) for team in teams]
    named = [*subjects, *(("role", role) for role in ROLES[1:])]
    fields = tuple(
        replace(
            field,
            permissions=tuple(
                m.FieldPermission(type, id, draw(st.sampled_from(LEVELS)))
                for type, id in d.some(draw, named)
            )
            if draw(st.integers(0, 2)) == 0
            else (),
        )
        for field in table.fields
    )
    field_ids = [field.id for field in table.fields]
    filters = (
        st.none() | d.predicates(table, tables, values) | d.view_filters(table, tables, values)
    )
    views = tuple(
        m.View(
            f"{table.id}.v{n}",
            names.named("View"),
            ownership=draw(st.sampled_from(["collaborative", "personal", "restricted"])),
            owner_id=draw(st.sampled_from([None, *(user.id for user in users)])),
            filter=draw(filters),
            hidden=tuple(d.some(draw, field_ids, 3)),
            field_order=tuple(draw(st.permutations(field_ids))),
        )
        for n in range(draw(st.integers(0, 3)))
    )
    policies = tuple(
        m.Policy(
            f"{table.id}.p{n}",
            [{"type": type, "id": id} for type, id in (d.some(draw, named, 3) or subjects)]
            if draw(st.integers(0, 9))
            else draw(st.sampled_from(d.GARBAGE[:5])),
            draw(d.predicates(table, tables, values)),
            draw(st.sampled_from(["permissive", "restrictive"])),
        )
        for n in range(draw(st.sampled_from([0, 0, 1, 2, 3])))
    )
    default = draw(st.sampled_from(["show_all", "show_all", "deny_all"]))
    return replace(table, fields=fields, views=views, policies=policies, policy_default=default)


def _grants(
    draw: st.DrawFn, tables: list[m.Table], users: list[str], teams: tuple[m.Team, ...]
) -> tuple[m.Grant, ...]:
    """Grants at every scope."""
    scopes = [("workspace", "w")] + [("table", table.id) for table in tables]
    scopes += [("view", view.id) for table in tables for view in table.views]
    subjects = [("user", id) for id in users] + [("team", team.id) for team in teams]
    # A user's role on the workspace is the member's: no grant says it.
    pairs = [(a, b) for a in scopes for b in subjects if (a[0], b[0]) != ("workspace", "user")]
    chosen = d.some(draw, pairs, 6)
    restricted = [view.id for t in tables for view in t.views if view.ownership == "restricted"]
    chosen += [(("view", id), draw(st.sampled_from(subjects))) for id in restricted]
    return tuple(
        m.Grant(*scope, *subject, draw(st.sampled_from([*ROLES, "viewer", "editor"])))
        for scope, subject in dict.fromkeys(chosen)
    )


def _earlier(
    draw: st.DrawFn,
    tables: list[m.Table],
    grants: tuple[m.Grant, ...],
    teams: tuple[m.Team, ...],
    members: tuple[m.Member, ...],
    users: list[str],
) -> m.Earlier | None:
    """As often as not some right was another once."""
    if draw(st.booleans()):
        return None
    return m.Earlier(
        grants=tuple(
            replace(grant, role=draw(st.sampled_from([grant.role, *ROLES])))
            for grant in d.some(draw, grants, len(grants))
        ),
        team_users=tuple(
            tuple(d.some(draw, users, 4)) if draw(st.booleans()) else team.user_ids
            for team in teams
        ),
        defaults=tuple(
            draw(st.sampled_from(["show_all", "deny_all"]))
            if draw(st.booleans())
            else table.policy_default
            for table in tables
        ),
        roles=tuple(draw(st.sampled_from([member.role, "editor", "viewer"])) for member in members),
    )


def _agents(draw: st.DrawFn, names: d.Canaries, tables: list[m.Table]) -> tuple[m.Agent, ...]:
    ids = [table.id for table in tables]
    return tuple(
        m.Agent(
            f"a{n}",
            names.named("Agent"),
            draw(st.sampled_from([*ROLES[::-1]])),
            tuple(d.some(draw, ids, 4)) if draw(st.booleans()) else None,
        )
        for n in range(2)
    )


# -- work -------------------------------------------------------------------------------------


def _work(
    draw: st.DrawFn, names: d.Canaries, tables: list[m.Table], users: list[str]
) -> dict[str, Any]:
    """Two projects, one of them private, and tasks with a row, or without."""
    due = st.sampled_from([None, date(2024, 3, 9), date(2024, 3, 11)])
    projects = tuple(
        m.Project(
            f"p{n}",
            names.named("Project"),
            due_on=draw(due),
            private=n == 1,
            user_ids=tuple(d.some(draw, users, 4)),
        )
        for n in range(2)
    )
    rows = [(table.id, record.id) for table in tables for record in table.records]
    tasks = []
    for n in range(draw(st.integers(0, 4))):
        table_id, record_id = draw(st.sampled_from([(None, None), *rows]))
        tasks.append(
            m.Task(
                f"k{n}",
                names.named("Task"),
                draw(st.sampled_from(["open", "done"])),
                draw(st.sampled_from([None, "p0", "p1"])),
                table_id,
                record_id,
                draw(st.sampled_from([None, *users])),
                draw(due),
            )
        )
    return {"projects": projects, "tasks": tuple(tasks)}
