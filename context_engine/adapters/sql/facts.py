"""What decides permission, and the dialogue: the first of two statements (see `table_facts`).

It tells who asks, with which rights, and what stands at the coordinates. Ids of another workspace
and deleted things are simply not in it, so that a workspace that does not exist and one without
the user take the same steps. The messages of a conversation are read only for who takes part in
it. Where nothing but a conversation is asked for, as over a cached surface, a shorter form,
`DIALOGUE`, does.

JSON that may have been edited behind our back comes as text: see `stored`.
"""

from __future__ import annotations

from context_engine.adapters.sql.driver import TIMELINE
from context_engine.adapters.sql.lookups import GRANT, GRANTS, Statement

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
    UNION SELECT table_id FROM tasks WHERE workspace_id = :workspace_id AND id = :task_id
    UNION SELECT table_id FROM tasks
        WHERE workspace_id = :workspace_id AND project_id = :project_id
    UNION
"""
"""Tables that coordinates name."""

_AROUND_VIEW = """
    UNION SELECT table_id FROM views WHERE id = :view_id AND workspace_id = :workspace_id"""
"""The table whose name may be told because of a view: no coordinate names it."""

_NAMED = """wanted LEFT JOIN LATERAL (
            SELECT id, position FROM (
                SELECT * FROM tables WHERE id >= wanted.id ORDER BY id LIMIT 1) nearest
            WHERE id = wanted.id AND workspace_id = :workspace_id AND NOT trashed OFFSET 0) t
        ON true"""
"""A row is read in any case: of a table that is missing the one that follows."""

_HELD = """
        SELECT subject_type, subject_id, scope_type, scope_id, role, view_of
        FROM granted WHERE scope_type = 'workspace'
        UNION ALL SELECT coalesce(h.subject_type, 'user'), coalesce(h.subject_id, ''),
            coalesce(h.scope_type, 'table'), coalesce(h.scope_id, ''), coalesce(h.role, 'none'),
            h.view_of
        FROM (SELECT DISTINCT id FROM around) a
        LEFT JOIN (SELECT * FROM granted WHERE scope_type <> 'workspace') h
        ON coalesce(h.view_of, h.scope_id) = a.id"""
"""The grants on the workspace and on the tables that are come to. For each of these without any,
and for each that is not there, something of no id stands in (`Facts.grants`, `Facts.named`): a
table out of sight is not to take more time than one that is missing, which has none."""

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


def _sql(wanted: str = "", around: str = "", coordinates: str = "") -> str:
    return f"""
WITH wanted AS (
{wanted}    SELECT unnest(m.table_ids) AS id FROM (
        SELECT table_ids FROM messages
        WHERE conversation_id = :conversation_id AND workspace_id = :workspace_id
        AND EXISTS (SELECT FROM participants
            WHERE conversation_id = :conversation_id AND user_id = :user_id)
        ORDER BY position DESC LIMIT :reach) m
), around AS MATERIALIZED (
    SELECT id FROM wanted{around}
), mine AS MATERIALIZED (
    SELECT team_id FROM team_members
    WHERE workspace_id = :workspace_id AND user_id = :user_id
), subjects AS (
    SELECT 'user' AS subject_type, :user_id AS subject_id
    UNION ALL SELECT 'team', team_id FROM mine
), granted AS MATERIALIZED ({GRANTS}
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
    'timeline', {TIMELINE},
    'user', (SELECT json_build_object(
        'id', u.id, 'name', u.name, 'email_norm', u.email_norm, 'locale', u.locale,
        'timezone', u.timezone, 'active', u.active) FROM users u WHERE u.id = :user_id),
    'workspace', (SELECT json_build_object(
        'id', w.id, 'name', w.name, 'organization_id', w.organization_id)
        FROM workspaces w WHERE w.id = :workspace_id),
    'member', (SELECT json_build_object('role', m.role, 'active', m.active) FROM members m
        WHERE m.workspace_id = :workspace_id AND m.user_id = :user_id),
    'team_ids', (SELECT coalesce(json_agg(team_id ORDER BY team_id), '[]') FROM mine),
    'grants', (SELECT coalesce(json_agg({GRANT}), '[]')
        FROM ({_HELD}) g),
    'named', (SELECT coalesce(json_agg(coalesce(t.id, '') ORDER BY t.position, t.id), '[]')
        FROM {_NAMED}),
{coordinates}    'agents', (SELECT coalesce(json_agg(json_build_object(
        'id', a.id, 'name', a.name, 'max_role', a.max_role, 'table_ids', a.table_ids)
        ORDER BY array_position(:agent_stack, a.id)), '[]')
        FROM agents a WHERE a.id = ANY(:agent_stack) AND a.workspace_id = :workspace_id),
    'conversation', (SELECT json_build_object(
        'id', c.id, 'title', c.title, 'is_participant', c.is_participant,
        'dialogue', {_DIALOGUE}) FROM talk c)
)::text
"""  # noqa: S608 - the parts are constants of this module


FACTS = Statement(_sql(_WANTED, _AROUND_VIEW, _COORDINATES))
DIALOGUE = Statement(_sql())
"""For a user, a conversation and an agent stack: what `FACTS` says of them."""
