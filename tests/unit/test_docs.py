"""The documentation says what the code says."""

from __future__ import annotations

import re
from pathlib import Path

from context_engine.settings import Settings
from events.messages import BuildRequest

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
