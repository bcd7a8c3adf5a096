"""Images and their services: details that are easily forgotten. Only `make test-image` runs Docker."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from mocketmq.remoting.listening.ports import VIP_OFFSET
from mocketmq.settings import Settings
from mocketmq.settings_sources import options

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
BAKE = (ROOT / "docker-bake.hcl").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
CLUSTER = ["report-on-cluster", "spark-master", "spark-worker"]

STAGES = {
    found[2] or "emulator": found[0]
    for found in re.finditer(r"^FROM (\S+)(?: AS (\S+))?\n(?:(?!FROM ).*\n)*", DOCKERFILE, re.MULTILINE)
}
"""Texts of the files, in order."""

PORTS = {
    Settings().http_port: "MOCKETMQ_HTTP_PORT",
    Settings().namesrv_port: "MOCKETMQ_NAMESRV_PORT",
    Settings().broker_port: "MOCKETMQ_BROKER_PORT",
    Settings().broker_port + VIP_OFFSET: "MOCKETMQ_VIP_PORT",
    Settings().grpc_port: "MOCKETMQ_GRPC_PORT",
}
"""Ports of the protocols with the variables that change them. Only compose has the VIP channel's variable."""


def interpolated(text: str, environment: dict[str, str]) -> str:
    """Interpolate compose's ``${NAME:-default}``."""
    return re.sub(r"\$\{(\w+):-(\w+)\}", lambda found: environment.get(found[1]) or found[2], text)


def test_the_emulator_is_built_and_started_unless_more_is_requested() -> None:
    assert list(STAGES) == ["java", "build-report", "report", "build", "emulator"]
    assert SERVICES["emulator"]["build"] == "."
    assert "profiles" not in SERVICES["emulator"]
    assert [*SERVICES] == ["emulator", "report", *CLUSTER]
    for name in ("report", *CLUSTER):
        assert SERVICES[name]["profiles"] == ["cluster" if name in CLUSTER else "report"]
        assert SERVICES[name]["build"] == {"context": ".", "target": "report"}
        assert SERVICES[name]["image"] != SERVICES["emulator"]["image"]


def test_a_report_takes_one_container_unless_a_cluster_is_requested() -> None:
    assert "depends_on" not in SERVICES["report"]
    on_cluster = SERVICES["report-on-cluster"]
    assert on_cluster["entrypoint"] == [
        *SERVICES["report"]["entrypoint"],
        *("--master", "spark://spark-master:7077"),
    ]
    assert {name: on_cluster[name] for name in ("volumes", "environment", "init")} == {
        name: SERVICES["report"][name] for name in ("volumes", "environment", "init")
    }


def test_every_port_of_the_defaults_is_exposed() -> None:
    (exposed,) = re.findall(r"^EXPOSE (.+)$", STAGES["emulator"], re.MULTILINE)
    assert set(map(int, exposed.split())) == PORTS.keys()


@pytest.mark.parametrize(
    "moved",
    [
        {},
        {"MOCKETMQ_HTTP_PORT": "9000", "MOCKETMQ_BROKER_PORT": "11000", "MOCKETMQ_VIP_PORT": "10998"},
    ],
)
def test_every_port_is_published_by_its_number(moved: dict[str, str]) -> None:
    published = {interpolated(each, moved) for each in SERVICES["emulator"]["ports"]}
    numbers = {moved.get(name, str(port)) for port, name in PORTS.items()}
    assert published == {f"{number}:{number}" for number in numbers}
    assert f"MOCKETMQ_URL=http://127.0.0.1:{moved.get('MOCKETMQ_HTTP_PORT', 9877)}" in [
        interpolated(each, moved) for each in SERVICES["emulator"]["environment"]
    ]


def test_no_variable_depends_on_another() -> None:
    """Compose evaluates both variables of ``${A:+${B:?}}``, and podman-compose does not understand it."""
    assert not re.search(r"\$\{[^}]*\$", (ROOT / "docker-compose.yml").read_text())


def test_every_setting_reaches_the_container() -> None:
    """Compose passes on a name without a value. The image sets the omitted settings."""
    passed = [each for each in SERVICES["emulator"]["environment"] if "=" not in each]
    fixed = {name.lower() for name in re.findall(r"MOCKETMQ_([A-Z]+)=", STAGES["emulator"])}
    assert fixed == {"host", "data"}
    names = [option.name for option in options() if option.name not in {*fixed, "port"}]
    assert passed == [f"MOCKETMQ_{name.upper()}" for name in ("config", *names)]


def test_the_emulators_image_has_the_bundle_alone() -> None:
    assert STAGES["emulator"].startswith("FROM scratch\n")
    assert not re.search(r"java|requirements-report|--from=(?!build )|^RUN", STAGES["emulator"], re.MULTILINE)
    assert "kits/bundle/build.py --folder /image/opt/mocketmq" in STAGES["build"]


def test_the_emulators_image_has_compiled_modules() -> None:
    assert "HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 pip install" in STAGES["build"]
    assert re.search(r"apt-get install .* gcc libc6-dev\b", STAGES["build"])
    assert "!kits/compiled" in (ROOT / ".dockerignore").read_text().splitlines()


def test_its_health_is_checked_often_only_until_it_is_ready() -> None:
    """Compose needs a health check too, because images in OCI format have none."""
    (line,) = re.findall(r"^HEALTHCHECK (.+)$", DOCKERFILE, re.MULTILINE)
    assert line == ('--interval=10s --timeout=10s --start-period=30s CMD ["mocketmq", "healthcheck"]')
    assert SERVICES["emulator"]["healthcheck"] == {
        "test": ["CMD", "mocketmq", "healthcheck"],
        "interval": "30s",
        "timeout": "10s",
        "start_period": "30s",
        "start_interval": "1s",
    }


def test_its_root_is_read_only() -> None:
    assert SERVICES["emulator"]["read_only"] is True
    assert SERVICES["emulator"]["tmpfs"] == "/tmp"  # noqa: S108 - in the container


def test_report_image_installs_the_same_packages_as_make() -> None:
    rule = re.search(r"^\.venv/\.report:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    built = re.search(r"for name in ([a-z -]+);", STAGES["build-report"])
    assert rule and built
    assert re.findall(r"install-from-source,requirements-report\.lock,([a-z-]+)", rule[1]) == built[1].split()
    assert "--require-hashes -r requirements-report.lock" in STAGES["build-report"]


def test_bases_are_named_by_version_and_digest() -> None:
    bases = dict(re.findall(r"^ARG (PYTHON|JAVA)=(\S+)@sha256:[0-9a-f]{64}$", DOCKERFILE, re.MULTILINE))
    assert bases == {
        "PYTHON": "python:3.13-slim",
        "JAVA": "eclipse-temurin:17-jre",
    }
    used = set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE))
    assert used == {"${PYTHON}", "${JAVA}", "scratch"}


@pytest.mark.parametrize("stage", ["report", "emulator"])
def test_images_say_what_they_are(stage: str) -> None:
    labels = dict(re.findall(r"org\.opencontainers\.image\.(\w+)=\"(.*)\"", STAGES[stage]))
    assert labels.keys() == {"title", "description", "licenses", "version", "revision"}
    assert labels["licenses"] == "Apache-2.0"
    assert (labels["version"], labels["revision"]) == ("${VERSION}", "${REVISION}")


def test_both_images_are_built_for_both_kinds_of_machines() -> None:
    assert 'platforms = ["linux/amd64", "linux/arm64"]' in BAKE
    targets = dict(re.findall(r'^target "([a-z]+)" \{\n(.*?)^\}', BAKE, re.MULTILINE | re.DOTALL))
    assert targets.keys() == {"emulator", "report"}
    assert re.findall(r'^  target +?= "(\w+)"', targets["report"], re.MULTILINE) == ["report"]
    assert "target  " not in targets["emulator"]  # it is the last stage
    arguments = re.findall(r"^    (\w+) += ", BAKE, re.MULTILINE)
    assert set(arguments) == set(re.findall(r"^ARG (\w+)=$", DOCKERFILE, re.MULTILINE))


def test_both_run_as_the_owner_of_the_data() -> None:
    assert "useradd --uid 10001" in STAGES["report"]
    assert "\nUSER mocketmq\n" in STAGES["report"]
    assert "mkdir -p /volume/data\n" in STAGES["build"]
    assert "COPY --from=build --chown=10001:10001 /volume /\nUSER 10001:10001\n" in STAGES["emulator"]
    assert "mocketmq:x:10001:10001::" in (ROOT / "kits/image/root.sh").read_text()


def test_copied_files_are_not_ignored() -> None:
    allowed = (ROOT / ".dockerignore").read_text().splitlines()
    copied = set(re.findall(r"^COPY (?!--from)(\S+) \.$", DOCKERFILE, re.MULTILINE)) - {"."}
    assert copied == {"requirements-bundle.lock", "requirements-report.lock"}
    run = {str(Path(file).parent) for file in re.findall(r"kits/\w+/\w+\.\w+", DOCKERFILE)}
    assert run == {"kits/bundle", "kits/image"}
    assert {f"!{name}" for name in copied | run} <= set(allowed)


def test_the_store_is_only_read_and_every_reader_sees_it() -> None:
    for name in ("report", "report-on-cluster", "spark-worker"):
        assert SERVICES[name]["volumes"] == ["data:/data:ro", "./report:/report"]
    assert SERVICES["emulator"]["volumes"] == ["data:/data"]


def test_each_service_waits_for_its_dependencies() -> None:
    for name, needed in (("report-on-cluster", "spark-worker"), ("spark-worker", "spark-master")):
        assert SERVICES[name]["depends_on"] == {needed: {"condition": "service_healthy"}}
        assert "http://localhost:8080" in str(SERVICES[needed]["healthcheck"]["test"])
        assert "--webui-port 8080" in " ".join(SERVICES[needed]["command"])
    assert SERVICES["spark-worker"]["deploy"] == {"replicas": 2}


def test_mirrors_of_the_recipe_reach_the_stages_that_need_them() -> None:
    recipe = (ROOT / "docs/recipes/compose.md").read_text()
    named = set(re.findall(r"--build-arg (\w+)=", recipe))
    declared = {stage: set(re.findall(r"^ARG (\w+)", text, re.MULTILINE)) for stage, text in STAGES.items()}
    assert named == {"PYTHON", *declared["build"]}
    assert "ARG PYTHON=" in DOCKERFILE
    for stage, text in STAGES.items():
        assert ("PIP_INDEX_URL" in declared[stage]) == ("pip install" in text or "pip --python" in text)
        assert ("DEBIAN_MIRROR" in declared[stage]) == ("apt-get" in text)
