"""Settings: clear faults, no secrets in what is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.settings import Settings, SettingsError, load


def test_no_password_is_printed() -> None:
    """Neither the database's, nor Redis's, nor the secret that seals tags."""
    secret = "an-unlikely-password"
    shown = repr(
        Settings.model_validate(
            {
                "redis_url": f"redis://:{secret}@127.0.0.1/0",
                "database_url": f"postgresql+asyncpg://u:{secret}@127.0.0.1/d",
                "tag_secret": secret,
            }
        )
    )
    assert secret not in shown


def test_a_missing_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name of its environment variable."""
    monkeypatch.delenv("CONTEXT_TAG_SECRET", raising=False)
    with pytest.raises(SettingsError, match="CONTEXT_TAG_SECRET"):
        load()


def test_the_environment_wins_over_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A file that `dev` left behind is below what the environment says."""
    file = tmp_path / "dev.env"
    file.write_text("CONTEXT_TAG_SECRET=from-the-file-0000\nCONTEXT_KAFKA_BOOTSTRAP=file:1\n")
    monkeypatch.delenv("CONTEXT_TAG_SECRET", raising=False)
    monkeypatch.setenv("CONTEXT_KAFKA_BOOTSTRAP", "environment:1")
    settings = load(file)
    assert settings.kafka_bootstrap == "environment:1"
    assert settings.tag_secret.get_secret_value() == "from-the-file-0000"
