"""The images and the services that run them: what is easily forgotten, as there is no Docker in a test."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from mocketmq.remoting.listening.ports import VIP_OFFSET
from mocketmq.settings import Settings, options

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
CLUSTER = sorted(SERVICES.keys() - {"emulator"})

STAGES = {
    found[2] or "emulator": found[0]
    for found in re.finditer(r"^FROM (\S+)(?: AS (\S+))?\n(?:(?!FROM ).*\n)*", DOCKERFILE, re.MULTILINE)
}
"""The text of each, in order."""

PORTS = {
    Settings().http_port: "MOCKETMQ_HTTP_PORT",
    Settings().namesrv_port: "MOCKETMQ_NAMESRV_PORT",
    Settings().broker_port: "MOCKETMQ_BROKER_PORT",
    Settings().broker_port + VIP_OFFSET: "",
    Settings().grpc_port: "MOCKETMQ_GRPC_PORT",
}
"""The port of each door, and the setting that moves it. The VIP channel's follows from the broker's."""


def interpolated(text: str, environment: dict[str, str]) -> str:
    """Compose's ``${NAME:-default}``."""
    return re.sub(r"\$\{(\w+):-(\w+)\}", lambda found: environment.get(found[1]) or found[2], text)


def test_the_emulator_is_built_and_started_unless_more_is_asked_for() -> None:
    assert list(STAGES) == ["build-report", "report", "build", "emulator"]
    assert SERVICES["emulator"]["build"] == "."
    assert "profiles" not in SERVICES["emulator"]
    assert CLUSTER == ["report", "spark-master", "spark-worker"]
    for name in CLUSTER:
        assert SERVICES[name]["profiles"] == ["report"]
        assert SERVICES[name]["build"] == {"context": ".", "target": "report"}
        assert SERVICES[name]["image"] != SERVICES["emulator"]["image"]


def test_every_port_of_the_defaults_is_exposed() -> None:
    (exposed,) = re.findall(r"^EXPOSE (.+)$", STAGES["emulator"], re.MULTILINE)
    assert set(map(int, exposed.split())) == PORTS.keys()


@pytest.mark.parametrize("moved", [{}, {"MOCKETMQ_HTTP_PORT": "9000", "MOCKETMQ_BROKER_PORT": "11000"}])
def test_every_port_is_published_by_its_number(moved: dict[str, str]) -> None:
    published = {interpolated(each, moved) for each in SERVICES["emulator"]["ports"]}
    numbers = {moved.get(name, str(port)) for port, name in PORTS.items()}
    assert published == {f"{number}:{number}" for number in numbers}
    assert f"MOCKETMQ_URL=http://127.0.0.1:{moved.get('MOCKETMQ_HTTP_PORT', 9877)}" in [
        interpolated(each, moved) for each in SERVICES["emulator"]["environment"]
    ]


def test_every_setting_reaches_the_container() -> None:
    """A name without a value is passed on; those that are left out are flags of the image's command."""
    passed = [each for each in SERVICES["emulator"]["environment"] if "=" not in each]
    (command,) = re.findall(r"^CMD (\[\"serve.+)$", STAGES["emulator"], re.MULTILINE)
    fixed = {word.removeprefix("--") for word in json.loads(command) if word.startswith("--")}
    assert fixed == {"host", "data"}
    names = [option.name for option in options() if option.name not in {*fixed, "port"}]
    assert passed == [f"MOCKETMQ_{name.upper()}" for name in ("config", *names)]


@pytest.mark.parametrize("stage", ["build", "emulator"])
def test_the_emulators_image_has_neither_java_nor_spark(stage: str) -> None:
    assert not re.search(r"java|temurin|requirements-report|--from=(?!build )", STAGES[stage])


def test_the_reports_image_installs_what_make_installs() -> None:
    rule = re.search(r"^\.venv/\.report:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    built = re.search(r"for name in ([a-z -]+);", STAGES["build-report"])
    assert rule and built
    assert re.findall(r"install-from-source,requirements-report\.lock,([a-z-]+)", rule[1]) == built[1].split()
    assert "--require-hashes -r requirements-report.lock" in STAGES["build-report"]


def test_images_are_named_by_a_version() -> None:
    images = re.findall(r"^FROM (\S+)|^COPY --from=(\S+:\S+)", DOCKERFILE, re.MULTILINE)
    assert {first or second for first, second in images} == {"python:3.13-slim", "eclipse-temurin:17-jre"}


@pytest.mark.parametrize("stage", ["report", "emulator"])
def test_both_run_as_the_user_to_whom_the_data_belongs(stage: str) -> None:
    assert "useradd --uid 10001" in STAGES[stage]
    assert "\nUSER mocketmq\n" in STAGES[stage]


def test_what_is_copied_is_not_ignored() -> None:
    allowed = (ROOT / ".dockerignore").read_text().splitlines()
    copied = set(re.findall(r"^COPY (?!--from)(\S+) \.$", DOCKERFILE, re.MULTILINE)) - {"."}
    assert copied == {"requirements.lock", "requirements-report.lock"}
    assert {f"!{name}" for name in copied} <= set(allowed)


def test_the_store_is_only_read_and_every_reader_sees_it() -> None:
    for name in ("report", "spark-worker"):
        assert SERVICES[name]["volumes"] == ["data:/data:ro", "./report:/report"]
    assert SERVICES["emulator"]["volumes"] == ["data:/data"]


def test_each_waits_for_what_it_needs() -> None:
    for name, needed in (("report", "spark-worker"), ("spark-worker", "spark-master")):
        assert SERVICES[name]["depends_on"] == {needed: {"condition": "service_healthy"}}
        assert "http://localhost:8080" in str(SERVICES[needed]["healthcheck"]["test"])
        assert "--webui-port 8080" in " ".join(SERVICES[needed]["command"])
    assert SERVICES["spark-worker"]["deploy"] == {"replicas": 2}
