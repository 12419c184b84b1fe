"""The domain commands, run in this process as a person types them."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from workers.cli.domain import app


@dataclass
class Cli:
    """Runs `domain …` words in this process."""

    patch: pytest.MonkeyPatch

    def __call__(self, *words: str, input: str | None = None) -> Result:
        self.patch.setattr(sys, "argv", ["context-engine", "domain", *words])
        return CliRunner().invoke(app, words, input=input, catch_exceptions=False)

    def json(self, *words: str, input: str | None = None) -> Any:
        done = self(*words, "--json", input=input)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    def lines(self, *words: str) -> list[str]:
        done = self(*words)
        assert done.exit_code == 0, done.output
        return done.stdout.splitlines()
