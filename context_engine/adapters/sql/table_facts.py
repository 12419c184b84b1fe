"""What is told of tables: the second of two statements (see `facts`), whatever their number.

It tells of the tables that a right leads into, and of those around them: a table out of sight is
not read, and so takes no more time than one that is missing.

It has one plan for good, since planning takes longer than reading. Counts come after, and the best
plan of a count depends on its table: so it turns planning anew on for the rest of its transaction,
and the shorter time that a count may take.
"""

from __future__ import annotations

from context_engine.adapters.sql.lookups import GRANT, GRANTS, Statement, each, spread

_FIELDS = """(
    SELECT coalesce(json_agg(json_build_object(
        'id', f.id, 'name', f.name, 'type', f.type, 'primary', f."primary",
        'linked_table_id', f.linked_table_id, 'linked_field_id', f.linked_field_id,
        'cardinality', f.cardinality, 'reads', f.reads::text) ORDER BY f.position, f.id), '[]')
    FROM fields f WHERE f.table_id = l.id)"""

_PERMISSIONS = """(
    SELECT coalesce(json_agg(json_build_object(
        'field_id', p.field_id, 'subject_type', p.subject_type, 'subject_id', p.subject_id,
        'level', p.level)), '[]')
    FROM (
        SELECT * FROM field_permissions WHERE table_id = l.id AND subject_type = 'role'
        UNION ALL SELECT * FROM field_permissions
        WHERE table_id = l.id AND subject_type = 'user' AND subject_id = :user_id
        UNION ALL SELECT * FROM field_permissions
        WHERE table_id = l.id AND subject_type = 'team' AND subject_id = ANY(:team_ids)) p)"""

_GRANTS = f"""(
    SELECT coalesce(json_agg({GRANT}), '[]')
    FROM granted g WHERE coalesce(g.view_of, g.scope_id) = l.id)"""  # noqa: S608 - constants

_VIEWS = """(
    SELECT coalesce(json_agg(json_build_object(
        'id', v.id, 'name', v.name, 'type', v.type, 'ownership', v.ownership,
        'owner_id', v.owner_id, 'filter', v.filter::text, 'hidden', v.hidden,
        'field_order', v.field_order) ORDER BY v.position, v.id), '[]')
    FROM views v WHERE v.table_id = l.id
    AND (v.ownership = 'restricted' OR l.id = ANY(:table_ids)))"""

_POLICIES = """(
    SELECT coalesce(json_agg(json_build_object(
        'id', r.id, 'subjects', r.subjects::text, 'pred', r.pred::text,
        'mode', r.mode) ORDER BY r.id), '[]')
    FROM row_policies r WHERE r.table_id = l.id)"""

_LINKED = "SELECT linked_table_id FROM fields WHERE table_id = asked.id"
_LINKING = (
    "SELECT table_id FROM fields WHERE linked_table_id = asked.id AND linked_field_id IS NULL"
)
_SOURCES = """
        SELECT source.id FROM fields f
        CROSS JOIN LATERAL jsonb_array_elements(f.reads) r
        CROSS JOIN LATERAL (
            SELECT r ->> 0 AS id UNION ALL
            SELECT b.linked_table_id FROM fields b
            WHERE b.id = r ->> 1 AND b.linked_table_id IS NOT NULL) source
        WHERE f.table_id = made.id AND f.reads <> '[]'"""
_RULES = """
        SELECT p.pred FROM row_policies p WHERE p.table_id = made.id
        UNION ALL SELECT v.filter FROM views v
        WHERE v.table_id = made.id AND v.filter IS NOT NULL
        AND (v.ownership = 'restricted' OR v.id = :view_id)"""
"""Policies, and the filters that are boundaries or counted."""

_LOOKED_INTO = """
        SELECT f.linked_table_id
        FROM jsonb_path_query(rules.rule, '$.**.linkedAny.field') q
        JOIN fields f ON f.id = q #>> '{}' AND f.table_id = rules.table_id"""
_LOOKED_UP = "SELECT q #>> '{}' FROM jsonb_path_query(rules.rule, '$.where.**.table') q"
_EVERY = spread("SELECT id FROM every")
_LIVE = each(
    f"{_EVERY} AS every(id)",
    "t",
    """
        SELECT * FROM tables
        WHERE id = every.id AND workspace_id = :workspace_id AND NOT trashed""",
)

TABLES = Statement(f"""
WITH RECURSIVE near AS (
    SELECT unnest(:table_ids) AS id
    UNION SELECT {spread(_LINKED)} FROM unnest(:table_ids) AS asked(id)
    UNION SELECT {spread(_LINKING)} FROM unnest(:table_ids) AS asked(id)
), made AS (
    SELECT {spread("SELECT id FROM near WHERE id IS NOT NULL")} AS id
    UNION SELECT {spread(_SOURCES)} FROM made
), rules AS MATERIALIZED (
    SELECT made.id AS table_id, {spread(_RULES)} AS rule
    FROM {spread("SELECT id FROM made")} AS made(id)
), every AS (
    SELECT id FROM made
    UNION SELECT {spread(_LOOKED_INTO)} FROM rules
    WHERE jsonb_path_exists(rules.rule, '$.**.linkedAny')
    UNION SELECT {spread(_LOOKED_UP)} FROM rules WHERE rules.rule ? 'where'
), live AS MATERIALIZED (
    SELECT t.* FROM {_LIVE}
), subjects AS (
    SELECT 'user' AS subject_type, :user_id AS subject_id
    UNION ALL SELECT 'team', unnest(:team_ids)
), granted AS MATERIALIZED (
    SELECT * FROM ({GRANTS}) g WHERE g.scope_type <> 'workspace'
    AND coalesce(g.view_of, g.scope_id) IN (SELECT id FROM live)
)
SELECT (SELECT coalesce(json_agg(json_build_object(
    'id', l.id, 'name', l.name, 'policy_default', l.policy_default, 'policies', {_POLICIES},
    'fields', {_FIELDS}, 'field_permissions', {_PERMISSIONS}, 'grants', {_GRANTS},
    'views', {_VIEWS})
    ORDER BY l.position, l.id), '[]') FROM live l)::text
FROM set_config('plan_cache_mode', 'force_custom_plan', true) AS plans, set_config(
    'statement_timeout', coalesce(:count_ms, current_setting('statement_timeout')), true) AS times
""")  # noqa: S608 - the parts are constants of this module
"""Tables asked for by id; those that they link to and that link to them without a field of their
own; those that computed fields are made of, through any number of steps; and those that policies
and filters of all these look into."""
