"""Settings, all with the prefix `CONTEXT_`. Beside `bootstrap`, nothing reads the environment."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

from dotenv import dotenv_values
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from context_engine.errors import Rejected
from context_engine.nearest import nearest

ESCAPES = "in a password write @ as %40, / as %2F, : as %3A, # as %23 and ? as %3F"
_PLACE = r"(\[[0-9A-Fa-f:.]+\]|[^@:/?#\[\]]*)(:\d{1,5})?"
REDIS_URL = re.compile(rf"(rediss?|unix)://([^/?#]*@)?{_PLACE}([/?#][^@]*)?")
ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^@:/?#\[\]\s]+):\d{1,5}")
DATABASE_URL = re.compile(rf"postgresql\+asyncpg://([^@]*@)?{_PLACE}(/[^@?]*)?(\?.*)?")


def _long_enough(secret: SecretStr) -> SecretStr:
    if len(secret.get_secret_value()) < 16:
        raise ValueError("shorter than 16 characters; use a random secret, one for all processes")
    return secret


def _database_form(url: str) -> str:
    """What is wrong with the beginning of a database's URL, where that is all."""
    scheme = url.partition("://")[0]
    if scheme in ("postgres", "postgresql"):
        return f"write postgresql+asyncpg:// in place of {scheme}://, "
    return ""


def _redis_url(url: str) -> str:
    """A URL that is read otherwise than it was meant would show its password as a host or port."""
    if REDIS_URL.fullmatch(url) is None:
        raise ValueError(f"not of the form redis://:PASSWORD@HOST:PORT/0; {ESCAPES}")
    return url


def _database_url(url: SecretStr) -> SecretStr:
    text = url.get_secret_value()
    if DATABASE_URL.fullmatch(text) is None:
        raise ValueError(
            f"{_database_form(text)}not of the form"
            f" postgresql+asyncpg://USER:PASSWORD@HOST:PORT/DATABASE; {ESCAPES}"
        )
    return url


def _bootstrap(addresses: str) -> str:
    if not all(ADDRESS.fullmatch(one.strip()) for one in addresses.split(",")):
        raise ValueError("not of the form host:port, several separated by commas")
    return addresses


def _parsed(value: object) -> object:
    """Text as it stands in the environment, from whatever source; other values as they are."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError('not a JSON list of texts, such as ["context.ready"]') from None


def _traceable(on: bool) -> bool:
    if on and find_spec("opentelemetry") is None:
        raise ValueError("needs OpenTelemetry; pip install 'context-engine[otel]'")
    return on


class Settings(BaseSettings):
    """Every setting with its default and unit."""

    model_config = SettingsConfigDict(
        env_prefix="CONTEXT_",
        frozen=True,
        extra="ignore",
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )

    kafka_bootstrap: Annotated[str, AfterValidator(_bootstrap)] = "127.0.0.1:9092"
    """`host:port`, several separated by commas."""
    redis_url: Annotated[str, AfterValidator(_redis_url)] = Field(
        "redis://127.0.0.1:6379/0", repr=False
    )
    """The primary of Redis 7 or newer, or of Valkey; may hold a password, never printed."""
    redis_cluster: bool = False
    """Whether `CONTEXT_REDIS_URL` is any node of a cluster: the others are found through it."""
    database_url: Annotated[SecretStr, AfterValidator(_database_url)] = SecretStr(
        "postgresql+asyncpg://context@127.0.0.1:5432/context"
    )
    """An SQLAlchemy URL with the driver asyncpg, of the primary; holds a password, never logged."""
    tag_secret: Annotated[SecretStr, AfterValidator(_long_enough)]
    """HMAC key for tags that leave the engine, 16 characters or more; one for all processes."""

    max_conversation_messages: int = Field(20, ge=1, le=200)
    """Messages of the dialogue's tail."""
    compression_char_budget: int = Field(6_000, ge=200, le=200_000)
    """Longest summary of what is older, in characters."""
    cache_ttl_seconds: int = Field(300, ge=1, le=3_600)
    """Life of a cached answer, absolute."""
    marks_cap: int = Field(20_000, ge=1_000)
    """Marks of one workspace, at up to 100 bytes each; with more, all are dropped, which costs
    misses, never staleness."""
    session_ttl_seconds: int = Field(86_400, ge=60)
    """Life of a session's coordinates, renewed by each answer."""
    snapshot_retention_days: int = Field(30, ge=1)
    """How long evidence is kept; the relay removes what is older."""

    max_in_flight: int = Field(256, ge=1, le=4_096)
    """Requests handled at once by one worker, and asked at once by one client."""
    build_timeout_seconds: float = Field(10.0, gt=0)
    """Bound of one build, retries included; then `unavailable`."""
    statement_timeout_seconds: float = Field(5.0, gt=0)
    """Bound of one SQL statement, held by the server."""
    count_cap: int = Field(10_000, ge=1, le=10_000_000)
    """How far rows and links are counted: a count beyond it is `exact: false`, with this value."""
    liveness: Literal["proven", "assumed"] = "proven"
    """`proven`: the cache is read only while beats of the relay come through every partition of
    the change topics. `assumed`: always; for who embeds the engine and runs no relay."""
    heartbeats: Literal["relay", "consumer"] = "relay"
    """Who sends the beats: `relay`, which vouches for the outbox too; `consumer`, for a product
    without this outbox, so that they prove the way from the topics to the cache only."""
    bypass_builds: int = Field(8, ge=1, le=256)
    """Builds at once in one process while liveness is not proven, so that the database survives
    the requests that the cache answers otherwise."""
    workspace_builds: int = Field(2, ge=1, le=256)
    """Builds of one workspace at once in one worker, hits not counted; more wait for their turn, up
    to half of `CONTEXT_MAX_IN_FLIGHT`, and what comes beyond is answered `rate_limited` at once. So
    that one that asks for more than can be built does not starve the others; while others ask, it
    is built for one at a time, with rests. Two keep a worker busy, and each more makes everybody
    else's builds slower. With one workspace only, or builds that mostly wait for the database, more
    are faster."""
    database_pool_size: int = Field(16, ge=1, le=256)
    """Connections of one process."""
    redis_timeout_seconds: float = Field(1.0, gt=0)
    """Bound of one round trip."""
    enforce_seconds: float = Field(5.0, gt=0)
    """How long a change of access waits to be enforced while Redis is away or was failed over,
    before its caller is told `committed_not_yet_enforced`. As long as a restart of Redis takes,
    and shorter than what people and their proxies wait for: a time-out would not tell them that
    the change stands. Beyond `CONTEXT_CACHE_TTL_SECONDS` it is enforced in any case."""
    redis_max_lag_seconds: float = Field(10.0, gt=0, le=600)
    """The servers' `min-replicas-max-lag`, or more; without replicas it plays no part. For so long
    a primary that was cut off may go on answering: after a failover no change is acknowledged as
    enforced, and no cache is read, until that has passed. Lower both to shorten it."""
    shutdown_seconds: float = Field(20.0, gt=0)
    """Bound of leaving after SIGTERM."""
    stall_seconds: float = Field(60.0, gt=0)
    """Lag without progress for this long makes a worker leave loudly."""
    health_host: str = "127.0.0.1"
    """Where `/livez`, `/readyz` and `/metrics` are served; `0.0.0.0` in a container."""
    health_port: int | None = Field(None, ge=1, le=65_535)
    """None serves them nowhere. `worker all` counts up from it, one port for each worker."""
    log_format: Literal["text", "json"] = "text"
    """Of the workers' logs, on stderr. `worker … --json` asks for JSON too."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that the workers log. `debug` has a line for each answered request."""
    tracing: Annotated[bool, AfterValidator(_traceable)] = False
    """Spans by OpenTelemetry, exported as its own variables (`OTEL_…`) say. Needs the extra
    `otel`."""

    import_max_rows: int = Field(200_000, ge=1)
    """Rows of one imported file; a file with more is refused whole."""

    topic_build_requests: str = "context.build-requests"
    """Where requests are read."""
    topic_ready: str = "context.ready"
    """Where answers go unless the request names another topic."""
    topic_evictions: str = "context.evictions"
    """Where it is told what was taken back."""
    topic_handled: str = "context.dead-letters-handled"
    """Which dead letters were replayed or discarded."""
    topic_domain_prefix: str = "domain."
    """Followed by the kind of change: `domain.schema-change` and so on."""
    reply_topics: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_parsed)] = (
        "context.ready",
    )
    """The topics that a request may name for its reply, as a JSON list."""
    build_group: str = "context-build"
    """Consumer group; never change it: a new name reads everything again."""
    invalidation_group: str = "context-invalidation"
    """The same, of the invalidation consumer."""
    invalidation_session_seconds: float = Field(3.0, ge=1.0)
    """How long a dead consumer keeps its partitions. A broker refuses less than its
    `group.min.session.timeout.ms`, which is 6 s unless it says otherwise."""


DEV_ENV = Path(".context-engine") / "dev.env"
"""Where `context-engine dev` leaves the addresses of its local stack."""

FOR_TESTS = "CONTEXT_TEST_"
"""Names with this prefix are the tests', not settings."""


def load(env_file: Path | None = None) -> Settings:
    """The settings of this process: the environment, and below it `env_file`, if that is there.

    Raises `SettingsError`, which names each setting that is missing or wrong, and no value.
    """
    try:
        return Settings(_env_file=env_file)
    except ValidationError as error:
        raise SettingsError(error, looked_at=env_file) from None


def unknown_names(env_file: Path | None = None) -> dict[str, str | None]:
    """Names in the environment or in `env_file` that look like settings and are none.

    With the setting that each looks most like, if any: a name with a typo changes nothing.
    """
    known = {f"CONTEXT_{name.upper()}" for name in Settings.model_fields}
    given = {name.upper() for name in (*os.environ, *_names_in(env_file))}
    return {
        name: nearest(name, sorted(known))
        for name in sorted(given - known)
        if name.startswith("CONTEXT_") and not name.startswith(FOR_TESTS)
    }


def overridden(env_file: Path) -> tuple[str, ...]:
    """Settings of `env_file` that the environment overrides with another value."""
    there = _values_in(env_file)
    given = {name.upper(): value for name, value in os.environ.items()}
    return tuple(name for name in sorted(there) if given.get(name, there[name]) != there[name])


def _names_in(env_file: Path | None) -> Iterable[str]:
    return _values_in(env_file) if env_file is not None else ()


def _values_in(env_file: Path) -> dict[str, str | None]:
    """Names, in capitals, and values as they stand in the file; nothing without one."""
    return {name.upper(): value for name, value in dotenv_values(env_file).items()}


class SettingsError(Rejected):
    """A setting is missing or wrong. `looked_at`: the file that was to hold it, if any."""

    code = "settings"

    def __init__(self, error: ValidationError, *, looked_at: Path | None = None) -> None:
        found = error.errors(include_url=False, include_input=False)
        faults = [
            f"CONTEXT_{'.'.join(map(str, fault['loc'])).upper()}: {_said(fault)}" for fault in found
        ]
        missing = any(fault["type"] == "missing" for fault in found)
        if missing and looked_at is not None and not looked_at.exists():
            faults.append(f"there is no file {looked_at.absolute()}")
        super().__init__("; ".join(faults))


def _said(fault: ErrorDetails) -> str:
    """A fault in words for people, where pydantic has others."""
    if fault["type"] == "missing":
        return "is not set"
    return fault["msg"].removeprefix("Value error, ")
