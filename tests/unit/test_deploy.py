"""The files for operators: units for systemd, manifests for Kubernetes, Prometheus's list of
targets. What they name is there: commands, settings, paths, ports; and a stop has its time."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import typer
import yaml

from context_engine.settings import Settings
from tests.support.documents import ROOT
from workers.cli.main import app
from workers.health import Health
from workers.health_server import _app
from workers.invalidate import LEAVE_SECONDS
from workers.supervisor import STOP_SECONDS, WORKERS

pytestmark = pytest.mark.unit

DEPLOY = ROOT / "deploy"
FIELDS = Settings.model_fields
SETTINGS = {f"CONTEXT_{name.upper()}": name for name in FIELDS}
SECRETS = {"CONTEXT_TAG_SECRET", "CONTEXT_REDIS_URL", "CONTEXT_DATABASE_URL"}
NEEDED: dict[str, set[str]] = {
    "build": SECRETS,
    "invalidate": SECRETS - {"CONTEXT_DATABASE_URL"},
    "relay": SECRETS,
    "migrate": SECRETS - {"CONTEXT_REDIS_URL"},
    "topics": {"CONTEXT_TAG_SECRET"},
}
"""As docs/deploy.md has it: a process has no password that it does not use."""

STOP = float(FIELDS["shutdown_seconds"].default)
"""Longest that a worker takes to leave by itself, with the default settings."""


def is_command(words: list[str]) -> bool:
    """Whether `context-engine` followed by these is one, with its options."""
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands") and words:
        if words[0] not in command.commands:
            return False
        command, words = command.commands[words[0]], words[1:]
    command.make_context(command.name, words)
    return True


def settings_in(text: str) -> Settings:
    """The settings of an environment file: each exists, and its value is one."""
    pairs = [line.split("=", 1) for line in text.splitlines() if line and line[0] != "#"]
    assert {name for name, _ in pairs} <= SETTINGS.keys()
    given = {SETTINGS[name]: value for name, value in pairs}
    return Settings.model_validate({"tag_secret": "s" * 16, **given})


def paths() -> set[str]:
    """Those that a worker serves."""
    return {one.resource.canonical for one in _app(Health("build")).router.routes() if one.resource}


# -- systemd -----------------------------------------------------------------------------------


def unit(name: str) -> dict[str, dict[str, list[str]]]:
    """Sections and what they say; a name may come several times."""
    found: dict[str, dict[str, list[str]]] = {}
    section = ""
    for line in (DEPLOY / "systemd" / name).read_text().splitlines():
        if heading := re.fullmatch(r"\[(\w+)\]", line):
            section = heading[1]
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(section, {}).setdefault(key, []).append(value)
    return found


@pytest.mark.parametrize("worker", WORKERS)
def test_a_unit_runs_each_worker_and_gives_it_time_to_stop(worker: str) -> None:
    """By its command, with files that are there; started again but for a wrong setting."""
    service = unit("context-engine@.service")["Service"]
    (command,) = (one.replace("%i", worker) for one in service["ExecStart"])
    program, *words = shlex.split(command)
    assert program.endswith("/context-engine")
    assert is_command(words)
    assert float(service["TimeoutStopSec"][0]) > STOP
    assert service["Restart"] == ["on-failure"]
    assert service["RestartPreventExitStatus"] == ["78"]
    for file in service["EnvironmentFile"]:
        path = DEPLOY / "systemd" / file.rpartition("/")[2].replace("%i", worker)
        assert settings_in(path.read_text())


def test_units_prepare_before_they_run() -> None:
    """The schema, then the topics, before any worker; and nobody is root."""
    prepare, worker = unit("context-engine-prepare.service"), unit("context-engine@.service")
    commands = [shlex.split(one)[1:] for one in prepare["Service"]["ExecStart"]]
    assert commands == [["migrate"], ["topics"]]
    assert all(map(is_command, commands))
    for key in ("Requires", "After"):
        assert "context-engine-prepare.service" in worker["Unit"][key][0].split()
    for one in (prepare, worker):
        assert one["Service"]["DynamicUser"] == one["Service"]["NoNewPrivileges"] == ["yes"]


def test_each_worker_of_a_machine_has_a_port_that_prometheus_knows() -> None:
    """None twice, and all of them in the list of targets."""
    found = [settings_in((DEPLOY / f"systemd/{one}.env").read_text()) for one in WORKERS]
    ports = [one.health_port for one in found]
    assert len(set(ports)) == len(WORKERS)
    scraped = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())
    (job,) = scraped["scrape_configs"]
    (static,) = job["static_configs"]
    assert static["targets"] == [f"{found[0].health_host}:{port}" for port in ports]
    assert job.get("metrics_path", "/metrics") in paths()
    assert [(DEPLOY / "prometheus" / one).exists() for one in scraped["rule_files"]] == [True]


# -- Kubernetes --------------------------------------------------------------------------------

PREPARE, MANIFESTS = (
    list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text()))
    for name in ("prepare.yaml", "workers.yaml")
)
(CONFIG,) = (one for one in MANIFESTS if one["kind"] == "ConfigMap")
DEPLOYMENTS = [one for one in MANIFESTS if one["kind"] == "Deployment"]
PODS: dict[str, dict[str, Any]] = {
    one["spec"]["template"]["spec"]["containers"][0]["name"]: one["spec"]["template"]
    for one in (*PREPARE, *DEPLOYMENTS)
}


def container(pod: dict[str, Any]) -> dict[str, Any]:
    (one,) = pod["spec"]["containers"]
    return dict(one)


@pytest.mark.parametrize("name", PODS)
def test_a_pod_runs_its_command_with_the_settings_that_it_needs(name: str) -> None:
    """Settings that exist; secrets by reference only, and none that it does not use."""
    one = container(PODS[name])
    assert is_command(one["args"])
    assert one["args"] == (["worker", name] if name in WORKERS else [name])
    given = {each["name"]: each["valueFrom"] for each in one["env"]}
    assert given.keys() <= SETTINGS.keys()
    assert {n for n, value in given.items() if "secretKeyRef" in value} == NEEDED[name]
    for reference in (value.get("configMapKeyRef") for value in given.values()):
        assert reference is None or reference["key"] in CONFIG["data"]


@pytest.mark.parametrize("name", PODS)
def test_a_pod_may_do_nothing_that_it_need_not(name: str) -> None:
    """The user of the image, no rights, a root that is not written, and bounds on what it takes."""
    spec, one = PODS[name]["spec"], container(PODS[name])
    (user,) = re.findall(r"^USER (\d+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert spec["securityContext"]["runAsUser"] == int(user)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["automountServiceAccountToken"] is False
    assert one["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"cpu", "memory"} <= one["resources"]["requests"].keys()
    assert "memory" in one["resources"]["limits"]


@pytest.mark.parametrize("name", WORKERS)
def test_a_workers_probes_ask_what_it_serves(name: str) -> None:
    """Live and ready apart, where it listens, as often as a look at the parts may take; and it is
    scraped there."""
    one, notes = container(PODS[name]), PODS[name]["metadata"]["annotations"]
    (port,) = one["ports"]
    assert str(port["containerPort"]) == CONFIG["data"]["CONTEXT_HEALTH_PORT"]
    assert one["envFrom"] == [{"configMapRef": {"name": CONFIG["metadata"]["name"]}}]
    for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert one[probe]["httpGet"] == {"path": path, "port": port["name"]}
        assert one[probe]["timeoutSeconds"] >= 3
    assert {"/livez", "/readyz", notes["prometheus.io/path"]} <= paths()
    assert notes["prometheus.io/port"] == str(port["containerPort"])


def test_every_worker_is_deployed_with_time_to_stop() -> None:
    """Longer than it takes by itself, and than a supervisor of ours gives it."""
    assert PODS.keys() == {*WORKERS, "migrate", "topics"}
    for one in DEPLOYMENTS:
        grace = one["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        assert grace >= STOP_SECONDS > STOP > LEAVE_SECONDS
        labels = one["spec"]["template"]["metadata"]["labels"]
        assert one["spec"]["selector"]["matchLabels"].items() <= labels.items()
    budgets = [one for one in MANIFESTS if one["kind"] == "PodDisruptionBudget"]
    assert [one["spec"]["selector"] for one in budgets] == [
        one["spec"]["selector"] for one in DEPLOYMENTS
    ]


def test_the_settings_of_the_pods_are_some() -> None:
    """Each exists, its value is one; and none of them is a secret."""
    text = "\n".join(f"{name}={value}" for name, value in CONFIG["data"].items())
    read = settings_in(text)
    assert read.health_host == "0.0.0.0"  # a probe comes from outside
    assert not SECRETS & CONFIG["data"].keys()


# -- Compose -----------------------------------------------------------------------------------


def test_compose_asks_the_health_that_the_workers_serve() -> None:
    """Its port and path; and it waits longer for the end than a worker takes."""
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    for name in WORKERS:
        one = compose["services"][name]
        assert is_command(one["command"])
        settings = {n: v for n, v in one["environment"].items() if n.startswith("CONTEXT_")}
        assert settings.keys() <= SETTINGS.keys()
        *_, address, path = one["healthcheck"]["test"]
        assert address == f"127.0.0.1:{settings['CONTEXT_HEALTH_PORT']}"
        assert path in paths()
        assert float(one["stop_grace_period"].removesuffix("s")) >= STOP_SECONDS
        assert one["read_only"] is True


def test_no_file_holds_a_secret_or_a_place_of_somebodys() -> None:
    """What stands in for one says so."""
    for file in (path for path in DEPLOY.rglob("*") if path.is_file()):
        for password in re.findall(r"://\w*:([^@\s]+)@", file.read_text()):
            assert password in ("change-me", "..."), file.name
