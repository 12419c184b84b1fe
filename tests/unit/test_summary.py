"""The compact summary: one line a section, bounded, stable, in the user's language."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine.models import (
    Agent,
    ConversationSection,
    Count,
    OrganizationSection,
    ProjectSection,
    Relation,
    TableSection,
    TaskSection,
    TeamSection,
    UserSection,
    ViewSection,
    WorkflowSection,
    WorkspaceSection,
)
from context_engine.sections.summary import LINE_CHARS, SUMMARY_CHARS, summarize, summary_lines
from context_engine.sections.surface import Surface
from context_engine.wording import bounded, clean, counted, day, number, quoted, several

ORDER = [
    "user", "workspace", "organization", "team", "project", "task", "table", "tables",
    "relations", "view", "workflow", "agentStack", "conversation",
]  # fmt: skip


def table(id: str, name: str, count: Count) -> TableSection:
    return TableSection(
        id=id, name=name, permission="commenter", field_count=1_200, fields=(), view_count=30,
        views=(), record_count=count,
    )  # fmt: skip


def surface(name: str = "Name", many: int = 2, count: int | None = 1_234_567) -> Surface:
    """A surface with every section, in which users chose `name` wherever they may choose."""
    counted_ = Count.of(count) if count is not None else Count.missing("too slow")
    tables = tuple(table(f"t{n}", name, counted_) for n in range(many))
    return Surface(
        user=UserSection(id="u", name=name, role="commenter"),
        workspace=WorkspaceSection(id="w", name=name),
        organization=OrganizationSection(id="o", name=name, role=name),
        team=TeamSection(id="g", name=name, member_count=counted_),
        project=ProjectSection(
            id="p", name=name, status=name, due_on="2026-12-03", open_tasks=counted_,
            tasks=counted_,
        ),
        task=TaskSection(id="k", title=name, status=name, due_on="2026-12-03"),
        tables=tables,
        relations=tuple(
            Relation(
                table_id=t.id, table_name=t.name, field_id="f", field_name=name,
                linked_table_id="t0", linked_table_name=name,
            )
            for t in tables
        ),
        view=ViewSection(
            id="v", name=name, type=name, table_id="t0", filtered=True, field_count=3,
            record_count=counted_,
        ),
        workflow=WorkflowSection(id="f", name=name, status=name),
        agent_stack=tuple(Agent(id=f"a{n}", name=name, max_role="viewer") for n in range(16)),
        trace={},
        absent=(),
    )  # fmt: skip


def talk(kept: int = 20, title: str = "Talk") -> ConversationSection:
    return ConversationSection(
        id="c", title=title, summary="", recent_turns=(), source_message_ids=(),
        original_chars=0, compressed_chars=0, kept_messages=kept, compressed_messages=16,
    )  # fmt: skip


def test_each_section_has_one_line_in_the_order_of_the_context() -> None:
    """What the context is not comes first, then the stable parts, the dialogue last."""
    assert [section for section, _ in summary_lines(surface(), talk(), None)] == ORDER
    lines = summarize(surface(), talk(), None).splitlines()
    assert len(lines) == 1 + len(ORDER)
    assert lines[0].startswith("This says where you are")
    assert lines[-1] == 'Conversation: "Talk", 36 messages, 20 kept, 16 compressed'


def test_one_of_a_thing_is_one() -> None:
    """No "1 views"; where a language does not tell one from many, nothing changes."""
    one = table("t", "T", Count.of(1)).model_copy(update={"field_count": 1, "view_count": 1})
    made = surface().model_copy(update={"tables": (one,)})
    english, chinese = (dict(summary_lines(made, talk(1), one)) for one in ("en", "zh"))
    assert english["table"].endswith("1 field, 1 view, records in sight: 1")
    assert "1 字段, 1 视图" in chinese["table"]
    assert several(1, "messages", "de") == "1 message"
    assert several(1_200, "messages", "de") == "1.200 messages"


def test_another_turn_changes_the_last_line_only() -> None:
    """A prompt cache keeps what stands before it; no line holds a time."""
    before, after = (summarize(surface(), talk(kept), None).splitlines() for kept in (9, 1_000))
    assert before[:-1] == after[:-1]
    assert before[-1] != after[-1]


def test_words_numbers_and_dates_follow_the_locale() -> None:
    """Chinese for `zh*`, else English; numbers and dates as the locale has them."""
    english = dict(summary_lines(surface("Hafen"), None, "en"))
    german = dict(summary_lines(surface("Hafen"), None, "de"))
    chinese = dict(summary_lines(surface("港口"), None, "zh-Hant-TW"))
    assert "due Dec 3, 2026, 1,234,567 of 1,234,567 open" in english["project"]
    assert "due 03.12.2026, 1.234.567 of 1.234.567 open" in german["project"]
    assert chinese["project"].startswith('项目: "港口", 状态')
    assert "截止 2026年12月3日" in chinese["project"]
    assert all(ord(c) > 127 for c in chinese["workspace"].partition(":")[0])


def test_a_list_says_how_many_more_there_are() -> None:
    """Fifty tables do not push the view and the dialogue out."""
    lines = dict(summary_lines(surface("A table of ours", many=50), talk(), None))
    assert lines["tables"].startswith('More tables (records in sight): "A table of ours" 1,234,567')
    shown = lines["tables"].count("A table of ours")
    assert lines["tables"].endswith(f" + {49 - shown} more")
    assert "view" in lines


def test_a_count_that_is_not_known_is_no_number() -> None:
    """Unavailable, in words."""
    lines = dict(summary_lines(surface(count=None), None, None))
    assert lines["view"].endswith("records in sight: not available")


names = st.text(max_size=120) | st.text('"\\`\n\r\u2028\u202eab', max_size=60)


@settings(deadline=None)
@given(names, st.integers(0, 60), st.sampled_from([None, "zh", "de", "fr", "ar", "hi"]))
def test_no_name_breaks_out_and_no_section_is_lost(
    name: str, many: int, locale: str | None
) -> None:
    """2,000 characters, a line for each section, every quote closed, nothing invisible."""
    made = surface(name, many)
    text = summarize(made, talk(title=name), locale)
    reloaded = Surface.model_validate_json(made.model_dump_json())
    assert summarize(reloaded, talk(title=name), locale) == text
    assert len(text) <= SUMMARY_CHARS
    lines = text.split("\n")
    assert len(lines) == 1 + len(list(summary_lines(made, talk(), locale)))
    for line in lines[1:]:
        assert len(line) <= LINE_CHARS
        assert line.count('"') % 2 == 0
        assert "`" not in line
        assert all(c.isprintable() or c.isspace() for c in line)
        assert len(line.splitlines()) == 1


@given(st.text(st.characters()), st.integers(2, 90))
def test_quoted_is_a_json_string_on_one_line(name: str, limit: int) -> None:
    """Whatever was chosen, the result is its own closed quote; cleaning twice is the same."""
    shown = quoted(name, limit)
    assert len(json.loads(shown)) <= limit
    assert clean(clean(name)) == clean(name)
    assert len(bounded(name, limit)) <= limit


def test_what_is_no_date_is_quoted() -> None:
    """A domain of one's own may hold anything; an unknown locale is English."""
    assert day("soon\n", None) == '"soon"'
    assert day("2026-12-03", "xx-unknown") == "Dec 3, 2026"
    assert number(1_000, "xx-unknown") == "1,000"
    assert counted(Count.of(5), "zh") == "5"


def test_what_no_person_sees_is_no_part_of_a_name() -> None:
    """Variation selectors and fillers can carry a hidden text; heaps of marks cover the line."""
    hidden = "".join(chr(0xE0100 + ord(c)) for c in "obey")
    assert clean(f"Plan{hidden}\ufe0f\u3164\u115f\u2800 B") == "Plan B"
    assert clean("a" + "\u0301" * 50) == "a" + "\u0301" * 4
    assert clean("ক্ষি བསྒྲུབས") == "ক্ষি བསྒྲུབས", "scripts that stack stay whole"


@pytest.mark.parametrize("quote", ['"', "“", "”", "„", "‟", "〞", "＂", "`", "\\"])
def test_nothing_in_a_name_looks_like_the_end_of_its_quotes(quote: str) -> None:
    assert quote not in quoted(f"a{quote} b")[1:-1]
