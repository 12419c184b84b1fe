"""docs/settings.md, from `Settings`."""

from __future__ import annotations

import json

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from context_engine.settings import Settings
from workers.reference import markdown
from workers.reference.markdown import code, paragraph, table

HEAD = """
Environment variables with the prefix `CONTEXT_`. The commands of `context-engine` also read
`.context-engine/dev.env`, which a running `context-engine dev` leaves there; the environment wins.
Which process needs which is in [deploying](deploy.md).
"""


def page() -> str:
    rows = [
        (code(f"CONTEXT_{name.upper()}"), _default(field), paragraph(field.description))
        for name, field in Settings.model_fields.items()
    ]
    return markdown.page("Settings", HEAD, table(("setting", "default", "meaning"), rows))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    match value:
        case None:
            return "none"
        case SecretStr():
            return code(value.get_secret_value())
        case tuple():
            return code(json.dumps(value))
        case float():
            return code(f"{value:g}")
        case _:
            return code(str(value))
