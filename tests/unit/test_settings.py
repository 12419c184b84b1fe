"""Settings: clear faults, no secrets in what is printed."""

from __future__ import annotations

import json
import logging
import sys
from io import StringIO
from pathlib import Path

import pytest
import structlog
from pydantic import ValidationError

from context_engine.access import Denial
from context_engine.faults import Faults
from context_engine.settings import Settings, SettingsError, load
from workers.house import settings_of
from workers.logs import configure

SECRET = "an-unlikely-password"
ODD = ("pa/{}", "pa#{}", "pa?{}", "1234/{}", "{}:x@y/")
"""Passwords that were not escaped: what follows them may be read as host, port or path."""


def test_no_password_is_printed() -> None:
    """Neither the database's, nor Redis's, nor the secret that seals tags."""
    secret = SECRET
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


def test_the_file_that_was_looked_for_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whole: who started in another folder sees where it was looked for."""
    monkeypatch.delenv("CONTEXT_TAG_SECRET", raising=False)
    with pytest.raises(SettingsError, match=f"there is no file {tmp_path / 'dev.env'}"):
        load(tmp_path / "dev.env")


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


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("redis_url", "redis://:{}@127.0.0.1:6379/0"),
        ("redis_url", "http://:{}@127.0.0.1:6379/0"),
        ("database_url", "postgresql+asyncpg://u:{}@h@127.0.0.1:5432/d"),
        ("database_url", "postgresql://u:{}@127.0.0.1:5432/d"),
    ],
)
def test_a_url_that_would_be_misread_is_refused_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, name: str, url: str, odd: str
) -> None:
    """Named, with the remedy, and without a letter of the password; printed raw or as ours."""
    given = url.format(odd.format(SECRET))
    with pytest.raises(ValidationError) as raw:
        Settings.model_validate({name: given, "tag_secret": SECRET})
    assert SECRET not in f"{raw.value!s} {raw.value!r}"
    monkeypatch.setenv("CONTEXT_TAG_SECRET", SECRET)
    monkeypatch.setenv(f"CONTEXT_{name.upper()}", given)
    with pytest.raises(SettingsError, match=f"CONTEXT_{name.upper()}: .* write @ as %40") as ours:
        load()
    assert SECRET not in str(ours.value)


@pytest.mark.parametrize(
    ("name", "url", "remedy"),
    [
        (
            "database_url",
            "postgres://u@h/d",
            r"write postgresql\+asyncpg:// in place of postgres://",
        ),
        ("database_url", "postgresql://u@h/d", r"in place of postgresql://"),
        ("redis_url", "localhost:6379", "of the form redis://"),
        ("kafka_bootstrap", "", "host:port"),
    ],
)
def test_an_address_of_another_form_is_told_its_remedy(
    monkeypatch: pytest.MonkeyPatch, name: str, url: str, remedy: str
) -> None:
    """In our words alone: the setting's name, and what to write."""
    monkeypatch.setenv("CONTEXT_TAG_SECRET", SECRET)
    monkeypatch.setenv(f"CONTEXT_{name.upper()}", url)
    with pytest.raises(SettingsError, match=remedy) as told:
        load()
    assert "Value error" not in told.value.message


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("redis_url", "redis://127.0.0.1"),
        ("redis_url", "rediss://u:p%40%2F@cache.example.org:6380/3?socket_timeout=2"),
        ("redis_url", "redis://[::1]:6379/0"),
        ("redis_url", "unix:///run/valkey.sock?db=1"),
        ("database_url", "postgresql+asyncpg://context@127.0.0.1:5432/context"),
        ("database_url", "postgresql+asyncpg://u:p%40:/@[::1]:5432/d?ssl=require"),
        ("database_url", "postgresql+asyncpg:///d?host=/run/postgresql"),
    ],
)
def test_urls_of_every_form_are_taken(name: str, url: str) -> None:
    Settings.model_validate({name: url, "tag_secret": SECRET})


def test_a_fault_of_another_setting_shows_no_secret() -> None:
    """pydantic's own words quote the whole input where something is missing."""
    with pytest.raises(ValidationError) as raw:
        Settings.model_validate(
            {"redis_url": f"redis://:{SECRET}@h/0", "tag_secret": "short", "cache_ttl_seconds": 0}
        )
    assert SECRET not in str(raw.value)


def test_lists_are_read_alike_from_the_environment_and_for_a_house(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same text, the same topics; text that is no JSON is a typed error, not a traceback."""
    env = {"CONTEXT_TAG_SECRET": SECRET, "CONTEXT_REPLY_TOPICS": '["context.ready", "mine"]'}
    assert settings_of(env).reply_topics == ("context.ready", "mine")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert load().reply_topics == ("context.ready", "mine")
    monkeypatch.setenv("CONTEXT_REPLY_TOPICS", "context.ready")
    with pytest.raises(SettingsError, match=r"CONTEXT_REPLY_TOPICS: .*JSON list"):
        load()


@pytest.mark.parametrize("json_lines", [True, False])
def test_a_traceback_in_the_log_shows_no_variables(
    monkeypatch: pytest.MonkeyPatch, json_lines: bool
) -> None:
    """They hold message bodies and addresses with passwords."""
    told, core = StringIO(), logging.getLogger("context_engine")
    monkeypatch.setattr(sys, "stderr", told)
    for name in ("handlers", "propagate"):
        monkeypatch.setattr(core, name, getattr(core, name))
    try:
        configure(json_lines)
        password = SECRET.upper()
        try:
            raise ValueError(f"a fault of {len(password)}")
        except ValueError:
            structlog.get_logger("test").exception("met a fault")
    finally:
        structlog.reset_defaults()
    assert "a fault of 20" in told.getvalue()
    assert SECRET.upper() not in told.getvalue()


@pytest.mark.parametrize("json_lines", [True, False])
def test_what_the_core_tells_is_told_in_the_form_of_the_process(
    monkeypatch: pytest.MonkeyPatch, json_lines: bool
) -> None:
    """An action and its fields, once for a rule."""
    told, core = StringIO(), logging.getLogger("context_engine")
    monkeypatch.setattr(sys, "stderr", told)
    for name in ("handlers", "propagate"):
        monkeypatch.setattr(core, name, getattr(core, name))
    try:
        configure(json_lines)
        faults = Faults()
        for _ in range(2):
            faults.report("w", [Denial(what="policy p of table t", rule="there is no field 'f'")])
    finally:
        structlog.reset_defaults()
    (line,) = told.getvalue().splitlines()
    if json_lines:
        said = json.loads(line)
        assert said["event"] == "a stored rule cannot be used, and denies"
        assert (said["rule"], said["workspace"]) == ("policy p of table t", "w")
    assert "there is no field 'f'" in line


def test_what_libraries_tell_is_json_where_all_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings and worse, with who says it; and a traceback of theirs shows no variables."""
    told, core = StringIO(), logging.getLogger("context_engine")
    monkeypatch.setattr(sys, "stderr", told)
    for name in ("handlers", "propagate"):
        monkeypatch.setattr(core, name, getattr(core, name))
    monkeypatch.setattr(logging.root, "handlers", [])
    level = logging.root.level
    try:
        configure(True)
        other = logging.getLogger("some.library")
        other.info("nothing to tell")
        other.warning("heartbeat of %s failed", "group")
        password = SECRET
        try:
            raise ValueError(f"a fault of {len(password)}")
        except ValueError:
            other.exception("gave up")
    finally:
        structlog.reset_defaults()
        logging.root.setLevel(level)
    warned, failed = map(json.loads, told.getvalue().splitlines())
    assert (warned["event"], warned["logger"]) == ("heartbeat of group failed", "some.library")
    assert (warned["level"], failed["level"]) == ("warning", "error")
    assert "ValueError: a fault of 20" in failed["exception"]
    assert SECRET not in told.getvalue()
