"""The documentation says what the code says."""

from __future__ import annotations

import json
import re
from pathlib import Path

from context_engine.settings import Settings
from events.messages import BuildRequest
from events.schema import schema_of

ROOT = Path(__file__).parents[2]
DOCS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def test_every_setting_is_documented() -> None:
    """And nothing that is no setting."""
    text = (ROOT / "docs" / "settings.md").read_text()
    named = set(re.findall(r"^\| `(CONTEXT_[A-Z_]+)`", text, re.MULTILINE))
    assert named == {f"CONTEXT_{name.upper()}" for name in Settings.model_fields}


def test_links_between_documents_lead_somewhere() -> None:
    """Every relative link names a file that is there."""
    for document in DOCS:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_request_in_the_documentation_is_one() -> None:
    """The example parses as the contract, with every field known."""
    text = (ROOT / "docs" / "messages.md").read_text()
    (example,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    request = BuildRequest.model_validate_json(example)
    assert request.model_dump(mode="json", exclude_unset=True)["input"]["tableIds"] == ["tbl-tasks"]


def test_the_changes_that_the_documentation_names_are_some() -> None:
    """By their type, in the union or as a CloudEvents type."""
    text = (ROOT / "docs" / "messages.md").read_text()
    named = set(re.findall(r"`(?:domain\.)?([a-z-]+\.changed)`", text))
    known = set(re.findall(r'"const": "([a-z-]+\.changed)"', json.dumps(schema_of("DomainChange"))))
    assert "member.changed" in named
    assert "project.changed" in named
    assert named <= known
