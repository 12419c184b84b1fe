"""docker-compose.yml, the image and what they name: settings, commands, images that exist here.

Read as text, by its indentation: no YAML parser is among the dependencies.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from context_engine.settings import Settings
from workers.localstack.maven import KAFKA_VERSION
from workers.supervisor import WORKERS

ROOT = Path(__file__).parents[2]
COMPOSE = (ROOT / "docker-compose.yml").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text()
SETTINGS = {f"CONTEXT_{name.upper()}" for name in Settings.model_fields}
PARTS = {"kafka", "valkey", "postgres"}
ONCE = {"migrate", "topics"}


def blocks(text: str, indent: int) -> dict[str, str]:
    """Each key at this depth with what is below it."""
    pad = " " * indent
    found = re.split(rf"^{pad}([\w-]+):", text, flags=re.MULTILINE)[1:]
    return dict(zip(found[::2], found[1::2], strict=True))


TOP = blocks(COMPOSE, 0)
SERVICES = blocks(TOP["services"], 2)


def test_the_services_are_the_parts_the_preparations_and_the_workers() -> None:
    """All three workers, each run by its command."""
    assert set(SERVICES) == PARTS | ONCE | set(WORKERS)
    for name in WORKERS:
        assert f"command: [worker, {name}, --json]" in SERVICES[name]
    for name in ONCE:
        assert f"command: [{name}]" in SERVICES[name]


@pytest.mark.parametrize("file", ["docker-compose.yml", "compose.env"])
def test_every_setting_that_is_given_exists(file: str) -> None:
    """A misspelt one would be ignored in silence."""
    named = set(re.findall(r"^\s*(CONTEXT_\w+)[:=]", (ROOT / file).read_text(), re.MULTILINE))
    assert named >= {
        "CONTEXT_KAFKA_BOOTSTRAP",
        "CONTEXT_REDIS_URL",
        "CONTEXT_DATABASE_URL",
        "CONTEXT_TAG_SECRET",
    }
    assert named <= SETTINGS


def test_the_addresses_for_this_machine_are_settings_that_are_valid() -> None:
    """With the defaults, as a shell reads them."""
    given = {}
    for line in (ROOT / "compose.env").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, value = shlex.split(line)[0].partition("=")
            given[name] = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)
    read = Settings.model_validate(
        {name.removeprefix("CONTEXT_").lower(): value for name, value in given.items()}
    )
    assert read.kafka_bootstrap == "127.0.0.1:9092"
    assert read.redis_url == "redis://:development-only@127.0.0.1:6379/0"


def test_what_is_a_secret_says_that_it_is_for_development() -> None:
    """And can be given from outside, in both files alike."""
    for text in (COMPOSE, (ROOT / "compose.env").read_text()):
        for name in ("POSTGRES_PASSWORD", "VALKEY_PASSWORD", "CONTEXT_TAG_SECRET"):
            defaults = set(re.findall(rf"\$\{{{name}(:-[^}}]*)?\}}", text))
            assert len(defaults) == 1
            assert defaults.pop().startswith(":-development-only")


def test_ports_are_published_on_this_machine_alone() -> None:
    """And only those of the parts: a worker that is scaled has neither port nor name."""
    published = {name for name, text in SERVICES.items() if "ports:" in text}
    assert published == PARTS
    ports = re.findall(r'ports: \["(.+)"\]', COMPOSE)
    assert len(ports) == len(PARTS)
    assert all(re.fullmatch(r"127\.0\.0\.1:\$\{\w+:-\d+\}:\d+", port) for port in ports)
    assert "container_name" not in COMPOSE


def test_every_service_waits_for_what_it_needs() -> None:
    """The parts until they are healthy, the preparations until they are done."""
    for name, text in SERVICES.items():
        waits = dict(re.findall(r"^      (\w+): \{ condition: (\w+) \}", text, re.MULTILINE))
        assert bool(waits) is (name not in PARTS)
        for other, condition in waits.items():
            done = "service_completed_successfully"
            assert condition == (done if other in ONCE else "service_healthy")
            assert other in ONCE or "healthcheck:" in SERVICES[other]


def test_volumes_are_declared_and_used() -> None:
    """Each part keeps its data under its own name."""
    assert set(blocks(TOP["volumes"], 2)) == PARTS
    for name in PARTS:
        assert f'volumes: ["{name}:/' in SERVICES[name]


def test_a_worker_has_longer_to_stop_than_it_takes() -> None:
    """Or it would be killed with work in flight."""
    (grace,) = re.findall(r"stop_grace_period: (\d+)s", COMPOSE)
    assert int(grace) > Settings.model_fields["shutdown_seconds"].default


def test_the_versions_are_those_that_the_tests_run_on() -> None:
    """The broker from Maven, the containers of the tests, and these are the same."""
    containers = (ROOT / "tests" / "support" / "containers.py").read_text()
    images = set(re.findall(r"image: (\S+/?\S+:\S+)", TOP["services"]))
    assert images == set(re.findall(r'^\w+_IMAGE = "(.+)"', containers, re.MULTILINE))
    assert f"apache/kafka:{KAFKA_VERSION}" in images


def test_the_image_is_made_of_files_that_are_there() -> None:
    """What it copies exists and is not kept from it; its last stage runs as nobody special."""
    let_in = re.findall(r"^!(\S+)", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    for name in " ".join(copied).split():
        assert (ROOT / name).exists()
        assert name in let_in
    last = DOCKERFILE.split("\nFROM ")[-1]
    assert re.search(r"^USER \d+$", last, re.MULTILINE)
    assert "constraints.txt" in DOCKERFILE
