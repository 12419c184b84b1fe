"""What decides permission, and the dialogue: two statements, whatever the number of tables.

The first, `FACTS`, tells who asks, with which rights, and what stands at the coordinates. Ids of
another workspace and deleted things are simply not in it, so that a workspace that does not exist
and one without the user take the same steps. The messages of a conversation are read only for who
takes part in it. Where nothing but a conversation is asked for, as over a cached surface, a
shorter form, `DIALOGUE`, does.

The second, `TABLES`, tells of the tables that a right leads into, and of those around them: a
table out of sight is not read, and so takes no more time than one that is missing.

JSON that may have been edited behind our back they give as text: see `stored`.

They look up by keys, so that one plan serves for good, and planning takes longer than reading.
Counts come after, and the best plan of a count depends on its table: so the second turns planning
anew on for the rest of its transaction, and the shorter time that a count may take.
"""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import Integer, Text, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.dialects.postgresql.asyncpg import dialect
from sqlalchemy.types import TypeEngine

_PROJECT = """json_build_object(
    'id', p.id, 'name', p.name, 'status', p.status, 'due_on', p.due_on,
    'private', p.private,
    'is_member', EXISTS (
        SELECT FROM project_members pm WHERE pm.project_id = p.id AND pm.user_id = :user_id),
    'task_table_ids', (
        SELECT coalesce(json_agg(DISTINCT k.table_id), '[]') FROM tasks k
        WHERE k.project_id = p.id AND k.table_id IS NOT NULL))"""

_DIALOGUE = """json_build_object(
    'messages', (SELECT coalesce(json_agg(json_build_object(
        'id', s.id, 'role', s.role, 'author_id', s.author_id, 'content', s.text,
        'chars', s.chars, 'tool_calls', s.tool_calls::text, 'tool_call_id', s.tool_call_id,
        'on_behalf_of', s.on_behalf_of, 'table_ids', s.table_ids, 'rights', s.rights::text,
        'at', s.created_at) ORDER BY s.position), '[]') FROM shown s),
    'message_count', c.message_count, 'total_chars', c.total_chars)"""

_WANTED = """    SELECT unnest(:table_ids) AS id
    UNION SELECT table_id FROM tasks
        WHERE workspace_id = :workspace_id AND (id = :task_id OR project_id = :project_id)
    UNION
"""
"""Tables that coordinates name."""

_COORDINATES = f"""    'view', (SELECT json_build_object(
        'id', v.id, 'table_id', v.table_id, 'ownership', v.ownership, 'owner_id', v.owner_id)
        FROM views v JOIN tables t ON t.id = v.table_id AND NOT t.trashed
        WHERE v.id = :view_id AND v.workspace_id = :workspace_id),
    'project', (SELECT {_PROJECT} FROM projects p
        WHERE p.id = :project_id AND p.workspace_id = :workspace_id),
    'task', (SELECT json_build_object(
        'id', k.id, 'title', k.title, 'status', k.status, 'table_id', k.table_id,
        'record_id', k.record_id, 'assignee_id', k.assignee_id, 'due_on', k.due_on,
        'project', (SELECT {_PROJECT} FROM projects p WHERE p.id = k.project_id))
        FROM tasks k WHERE k.id = :task_id AND k.workspace_id = :workspace_id),
    'team', (SELECT json_build_object(
        'id', t.id, 'name', t.name,
        'member_count', (SELECT count(*) FROM team_members tm WHERE tm.team_id = t.id),
        'is_member', t.id IN (SELECT team_id FROM mine))
        FROM teams t WHERE t.id = :team_id AND t.workspace_id = :workspace_id),
    'organization', (SELECT json_build_object(
        'id', o.id, 'name', o.name, 'role', (SELECT om.role FROM organization_members om
            WHERE om.organization_id = o.id AND om.user_id = :user_id))
        FROM organizations o WHERE o.id = :organization_id),
    'workflow', (SELECT json_build_object('id', f.id, 'name', f.name, 'status', f.status)
        FROM workflows f WHERE f.id = :workflow_id AND f.workspace_id = :workspace_id),
"""  # noqa: S608 - the parts are constants of this module


_TYPES: dict[str, TypeEngine[Any]] = {
    **dict.fromkeys(("table_ids", "team_ids", "agent_stack"), ARRAY(Text)),
    **dict.fromkeys(("tail", "reach", "older", "older_chars"), Integer()),
    **dict.fromkeys(
        (
            "workspace_id",
            "user_id",
            "view_id",
            "task_id",
            "project_id",
            "team_id",
            "organization_id",
            "workflow_id",
            "conversation_id",
            "count_ms",
        ),
        Text(),
    ),
}


class Statement:
    """The SQL with the driver's own places for values, and their names in that order."""

    def __init__(self, sql: str) -> None:
        typed = (
            bindparam(n, type_=kind) for n, kind in _TYPES.items() if re.search(rf":{n}\b", sql)
        )
        compiled = text(sql).bindparams(*typed).compile(dialect=dialect())  # type: ignore[no-untyped-call]
        self.sql = str(compiled)
        self.names: tuple[str, ...] = tuple(compiled.positiontup or ())


def _sql(wanted: str, coordinates: str) -> str:
    of_view = """
            OR coalesce(v.table_id, g.scope_id) = (SELECT table_id FROM views
                WHERE id = :view_id AND workspace_id = :workspace_id)"""
    of_view = of_view if coordinates else ""
    return f"""
WITH wanted AS (
{wanted}    SELECT unnest(m.table_ids) AS id FROM (
        SELECT table_ids FROM messages
        WHERE conversation_id = :conversation_id AND workspace_id = :workspace_id
        ORDER BY position DESC LIMIT :reach) m
), mine AS MATERIALIZED (
    SELECT team_id FROM team_members
    WHERE workspace_id = :workspace_id AND user_id = :user_id
), subjects AS (
    SELECT 'user' AS subject_type, :user_id AS subject_id
    UNION ALL SELECT 'team', team_id FROM mine
), talk AS MATERIALIZED (
    SELECT c.id, c.title, c.message_count, c.total_chars, EXISTS (
        SELECT FROM participants cp
        WHERE cp.conversation_id = c.id AND cp.user_id = :user_id) AS is_participant
    FROM conversations c WHERE c.id = :conversation_id AND c.workspace_id = :workspace_id
), mine_to_read AS MATERIALIZED (
    SELECT id FROM talk WHERE is_participant AND :tail > 0
), edge AS (
    SELECT min(position) AS position FROM (
        SELECT position FROM messages
        WHERE conversation_id = (SELECT id FROM mine_to_read)
        ORDER BY position DESC LIMIT :tail) last
), start AS (
    SELECT coalesce(max(position), 0) AS position FROM messages
    WHERE conversation_id = :conversation_id AND role <> 'tool'
    AND position <= (SELECT position FROM edge)
), shown AS (
    SELECT m.*, m.content AS text FROM messages m
    WHERE m.conversation_id = (SELECT id FROM mine_to_read)
    AND m.position >= (SELECT position FROM start)
    UNION ALL
    (SELECT m.*, left(m.content, :older_chars) AS text FROM messages m
    WHERE m.conversation_id = (SELECT id FROM mine_to_read) AND m.role <> 'tool'
    AND m.position < (SELECT position FROM start)
    ORDER BY m.position DESC LIMIT :older)
)
SELECT json_build_object(
    'now', now(),
    'user', (SELECT json_build_object(
        'id', u.id, 'name', u.name, 'email_norm', u.email_norm, 'locale', u.locale,
        'timezone', u.timezone, 'active', u.active) FROM users u WHERE u.id = :user_id),
    'workspace', (SELECT json_build_object(
        'id', w.id, 'name', w.name, 'organization_id', w.organization_id)
        FROM workspaces w WHERE w.id = :workspace_id),
    'member', (SELECT json_build_object('role', m.role, 'active', m.active) FROM members m
        WHERE m.workspace_id = :workspace_id AND m.user_id = :user_id),
    'team_ids', (SELECT coalesce(json_agg(team_id ORDER BY team_id), '[]') FROM mine),
    'grants', (SELECT coalesce(json_agg(json_build_object(
        'subject_type', g.subject_type, 'subject_id', g.subject_id,
        'scope_type', g.scope_type, 'scope_id', g.scope_id, 'role', g.role,
        'table_id', v.table_id)), '[]')
        FROM subjects s JOIN grants g USING (subject_type, subject_id)
        LEFT JOIN views v ON g.scope_type = 'view' AND v.id = g.scope_id
        WHERE g.workspace_id = :workspace_id AND (g.scope_type = 'workspace'
            OR coalesce(v.table_id, g.scope_id) IN (SELECT id FROM wanted){of_view})),
    'named', (SELECT coalesce(json_agg(t.id ORDER BY t.position, t.id), '[]')
        FROM tables t JOIN wanted USING (id)
        WHERE t.workspace_id = :workspace_id AND NOT t.trashed),
{coordinates}    'agents', (SELECT coalesce(json_agg(json_build_object(
        'id', a.id, 'name', a.name, 'max_role', a.max_role, 'table_ids', a.table_ids)
        ORDER BY array_position(:agent_stack, a.id)), '[]')
        FROM agents a WHERE a.id = ANY(:agent_stack) AND a.workspace_id = :workspace_id),
    'conversation', (SELECT json_build_object(
        'id', c.id, 'title', c.title, 'is_participant', c.is_participant,
        'dialogue', {_DIALOGUE}) FROM talk c)
)::text
"""  # noqa: S608 - the parts are constants of this module


FACTS = Statement(_sql(_WANTED, _COORDINATES))
DIALOGUE = Statement(_sql("", ""))
"""For a user, a conversation and an agent stack: what `FACTS` says of them."""

# -- tables ------------------------------------------------------------------------------------

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
    FROM field_permissions p WHERE p.table_id = l.id AND (p.subject_type = 'role'
        OR (p.subject_type = 'user' AND p.subject_id = :user_id)
        OR (p.subject_type = 'team' AND p.subject_id = ANY(:team_ids))))"""

_GRANTS = """(
    SELECT coalesce(json_agg(json_build_object(
        'subject_type', g.subject_type, 'subject_id', g.subject_id,
        'scope_type', g.scope_type, 'scope_id', g.scope_id, 'role', g.role,
        'table_id', g.view_of)), '[]')
    FROM granted g WHERE coalesce(g.view_of, g.scope_id) = l.id)"""

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

_RULES = """
    SELECT p.table_id, p.pred AS rule FROM row_policies p JOIN made ON p.table_id = made.id
    UNION ALL SELECT v.table_id, v.filter FROM views v JOIN made ON v.table_id = made.id
    WHERE v.filter IS NOT NULL AND (v.ownership = 'restricted' OR v.id = :view_id)"""
"""Policies, and the filters that are boundaries or counted."""

TABLES = Statement(f"""
WITH RECURSIVE near AS (
    SELECT unnest(:table_ids) AS id
    UNION SELECT f.linked_table_id FROM fields f
        WHERE f.table_id = ANY(:table_ids) AND f.linked_table_id IS NOT NULL
    UNION SELECT f.table_id FROM fields f
        WHERE f.linked_table_id = ANY(:table_ids) AND f.linked_field_id IS NULL
), made AS (
    SELECT id FROM near
    UNION SELECT source.id FROM made JOIN fields f ON f.table_id = made.id AND f.reads <> '[]'
        CROSS JOIN LATERAL jsonb_array_elements(f.reads) r
        CROSS JOIN LATERAL (
            SELECT r ->> 0 AS id UNION ALL
            SELECT b.linked_table_id FROM fields b
            WHERE b.id = r ->> 1 AND b.linked_table_id IS NOT NULL) source
), rules AS MATERIALIZED ({_RULES}
), every AS (
    SELECT id FROM made
    UNION SELECT f.linked_table_id FROM rules
        CROSS JOIN LATERAL jsonb_path_query(rules.rule, '$.**.linkedAny.field') q
        JOIN fields f ON f.id = q #>> '{{}}' AND f.table_id = rules.table_id
    UNION SELECT q #>> '{{}}' FROM rules
        CROSS JOIN LATERAL jsonb_path_query(rules.rule, '$.where.**.table') q
), live AS MATERIALIZED (
    SELECT t.* FROM tables t JOIN every USING (id)
    WHERE t.workspace_id = :workspace_id AND NOT t.trashed
), granted AS MATERIALIZED (
    SELECT g.*, v.table_id AS view_of FROM (
        SELECT 'user' AS subject_type, :user_id AS subject_id
        UNION ALL SELECT 'team', unnest(:team_ids)) s
    JOIN grants g USING (subject_type, subject_id)
    LEFT JOIN views v ON g.scope_type = 'view' AND v.id = g.scope_id
    WHERE g.workspace_id = :workspace_id AND g.scope_type <> 'workspace'
    AND coalesce(v.table_id, g.scope_id) IN (SELECT id FROM live)
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
