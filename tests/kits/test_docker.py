"""Docker itself: images as a release builds them, and the services of docker-compose.yml.

``make test-image`` runs it, as root.
"""

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from mocketmq import __version__
from tests.clients.recipes.pages import files
from tests.kits.emulation import emulated_arm64
from tests.kits.engines import KEPT, TOOLS, Engines, running_engines
from tests.kits.image_bases import java_base, python_base
from tests.kits.test_roots import MOST_S, ROOT, debian

SPARK_COMMANDS: Final = re.findall(
    r"^(docker compose (?:run --rm report|--profile cluster).*?)(?: +#.*)?$",
    (ROOT / "docs" / "lateness.md").read_text("utf-8"),
    re.MULTILINE,
)
"""Reports by Spark in one container, without Spark, and on a cluster, which ends at last."""
IMAGE: Final = "mocketmq"
REPORT_IMAGE: Final = "mocketmq-report"
"""The names in docker-compose.yml."""
PROJECT: Final = "/kept/project"
ADDRESSES: Final = (
    ("--name-server", "127.0.0.1:9876", "--levels", "1"),
    ("--grpc", "127.0.0.1:8081", "--delays", "1s"),
)
MESSAGES: Final = 5
MOCKETMQ: Final = str(Path(sys.executable).with_name("mocketmq"))
MOST_STOP_S: Final = 1.0
MOST_REPORT_MB: Final = 1_400
USER: Final = 10_001

pytestmark = [
    pytest.mark.by_hand,
    pytest.mark.timeout(2 * MOST_S),
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("debootstrap") is None, reason="needs root and debootstrap"
    ),
]


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    """A Docker whose builds take our bases."""
    with (
        running_engines() as engines,
        engines.daemon("dockerd", "--config-file", "/kept/docker.json", ready=("docker", "version")),
    ):
        yield engines


def imported(engines: Engines, archive: Path, architecture: str = "amd64") -> str:
    """Import an archive as an image, unless an earlier run did, and return its name."""
    name = f"base/{archive.stem}"
    if engines.run("docker", "image", "ls", "--quiet", name):
        return name
    path = "ENV PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    platform = f"linux/{architecture}"
    engines.run("docker", "import", "--platform", platform, "--change", path, f"/kept/{archive.name}", name)
    return name


def bake(
    engines: Engines, *targets: str, image: str = IMAGE, architecture: str = "amd64", **arguments: str
) -> None:
    """Build images as a release does, for one platform, without the SBOM that another image would make."""
    pairs = [f"--set=*.args.{name}={value}" for name, value in arguments.items()]
    built = ("--load", "--sbom=false", f"--set=*.platform=linux/{architecture}", *pairs)
    engines.run("docker", "buildx", "bake", *built, *targets, IMAGE=image, VERSION=__version__)


@pytest.fixture(scope="module")
def images(engines: Engines) -> None:
    """Both images, for this machine."""
    bases = {"PYTHON": imported(engines, python_base()), "JAVA": imported(engines, java_base())}
    bake(engines, **bases)


@pytest.fixture
def broker(engines: Engines, images: None) -> Iterator[Engines]:  # noqa: ARG001
    """What compose starts by default, ready, from the images that bake has built."""
    folder = KEPT / "project"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copy(ROOT / "docker-compose.yml", folder)
    engines.run("docker", "compose", "up", "--detach", "--wait", cwd=PROJECT)
    yield engines
    engines.run("docker", "compose", "--profile", "*", "down", "--volumes", cwd=PROJECT)


def test_bake_names_both_images_and_platforms(engines: Engines) -> None:
    bake = ("docker", "buildx", "bake", "--print", "--progress=quiet")
    printed = engines.run(*bake, IMAGE="registry/mocketmq", VERSION="1.2.3", REVISION="abc")
    targets: dict[str, Any] = json.loads(printed)["target"]
    assert {name: each["tags"] for name, each in targets.items()} == {
        "emulator": ["registry/mocketmq:latest", "registry/mocketmq:1.2.3"],
        "report": ["registry/mocketmq-report:latest", "registry/mocketmq-report:1.2.3"],
    }
    for each in targets.values():
        assert each["platforms"] == ["linux/amd64", "linux/arm64"]
        assert each["args"] == {"VERSION": "1.2.3", "REVISION": "abc"}


def test_compose_starts_a_broker_for_clients_on_the_host(broker: Engines) -> None:
    assert broker.run("docker", "compose", "ps", "--services", cwd=PROJECT) == "emulator"
    probe(broker)
    [name] = broker.run("docker", "compose", "ps", "--quiet", cwd=PROJECT).splitlines()
    began = time.monotonic()
    broker.run("docker", "stop", name)
    assert time.monotonic() - began < MOST_STOP_S
    assert broker.run("docker", "inspect", "--format", "{{.State.ExitCode}}", name) == "0"


@pytest.mark.usefixtures("images")
def test_an_application_in_compose_reaches_the_broker(engines: Engines) -> None:
    """The recipe's file; a probe by remoting, which sends and receives, replaces the application."""
    file = yaml.safe_load(files("compose")["docker-compose.yml"])
    shop = file["services"]["shop"]
    del shop["build"]
    address = f"--name-server={shop['environment']['ROCKETMQ_NAME_SERVER']}"
    shop |= {"image": IMAGE, "command": ["probe", address, "--levels=1", "--count=1", "--out=/tmp/probe.csv"]}
    (KEPT / "recipe.yml").write_text(yaml.safe_dump(file))
    compose = ("docker", "compose", "--file", "/kept/recipe.yml", "--project-name", "recipe")
    try:
        engines.run(*compose, "up", "--exit-code-from", "shop")
    finally:
        engines.run(*compose, "down", "--volumes")


def probe(engines: Engines) -> None:
    """Send delayed messages by remoting and by gRPC, and receive them."""
    for number, address in enumerate(ADDRESSES):
        ledger = KEPT / f"probe-{number}.csv"
        ledger.unlink(missing_ok=True)
        told = engines.beside(MOCKETMQ, "probe", *address, "--count", str(MESSAGES), "--out", str(ledger))
        assert len(ledger.read_text().splitlines()) == 1 + MESSAGES, told


@pytest.mark.usefixtures("images")
def test_a_service_of_github_serves_the_job_on_the_host(engines: Engines) -> None:
    """As the recipe says, but with a real clock, for which the probe waits."""
    recipe = yaml.safe_load(files("ci")["github-service.yml"])
    service = recipe["jobs"]["test"]["services"]["rocketmq"]
    ports = [f"--publish={pair}" for pair in service["ports"]]
    variables = [
        f"--env={name}={text}" for name, text in (service["env"] | {"MOCKETMQ_CLOCK": "real"}).items()
    ]
    with container(engines, *ports, *variables, IMAGE):
        probe(engines)


@pytest.mark.usefixtures("images")
def test_a_service_of_gitlab_serves_the_job_in_another_container(engines: Engines) -> None:
    [service] = yaml.safe_load(files("ci")["gitlab-service.yml"])["test"]["services"]
    engines.run("docker", "network", "create", "gitlab")
    try:
        alias = f"--network-alias={service['alias']}"
        with container(engines, "--network=gitlab", alias, IMAGE, *service["command"], "--clock", "real"):
            job = ("docker", "run", "--rm", "--network=gitlab", "--read-only", "--tmpfs=/tmp", IMAGE)
            address = f"--name-server={service['alias']}:9876"
            engines.run(*job, "probe", address, "--levels=1", "--count=1", "--out=/tmp/probe.csv")
    finally:
        engines.run("docker", "network", "rm", "gitlab")


@contextmanager
def container(engines: Engines, *words: str) -> Iterator[str]:
    """A broker in a container, ready."""
    name = engines.run("docker", "run", "--detach", *words)
    try:
        engines.wait_for("docker", "exec", name, "mocketmq", "healthcheck")
        yield name
    finally:
        engines.run("docker", "rm", "--force", "--volumes", name)


def test_compose_makes_the_same_report_in_a_container_without_spark_and_on_a_cluster(broker: Engines) -> None:
    probe(broker)
    folder = KEPT / "project" / "report"
    folder.mkdir()
    folder.chmod(0o777)
    by_spark, quickly, on_cluster, end = SPARK_COMMANDS
    reports = []
    for command in (by_spark, quickly, on_cluster):
        broker.run("sh", "-c", command, cwd=PROJECT)
        reports.append(json.loads((folder / "report.json").read_text()))
        assert (folder / "report.html").stat().st_uid == USER
    assert [each["header"]["spark"] == "none" for each in reports] == [False, True, False]
    for each in reports:
        assert each["lateness"][0]["measured"] == len(ADDRESSES) * MESSAGES
        assert each["lateness"] == reports[0]["lateness"]
    failing = f"{quickly} --threshold 'max <= 1us'"
    assert "max" in broker.run("sh", "-c", failing, code=1, cwd=PROJECT)
    workers = broker.run("docker", "compose", "ps", "--quiet", "spark-worker", cwd=PROJECT)
    assert len(workers.splitlines()) == 2
    broker.run("sh", "-c", end, cwd=PROJECT)
    assert not broker.run("docker", "compose", "ps", "--all", "--quiet", cwd=PROJECT)


@pytest.mark.usefixtures("images")
def test_the_image_of_reports_runs_as_the_owner_of_the_data(
    engines: Engines, capsys: pytest.CaptureFixture[str]
) -> None:
    start = ("docker", "run", "--rm", "--network=none")
    assert engines.run(*start, "--entrypoint=id", REPORT_IMAGE, "-u") == str(USER)
    told = engines.run(*start, "--user=0", "--entrypoint=du", REPORT_IMAGE, "-s", "--block-size=1MB", "/opt")
    megabytes = int(told.split()[0])
    assert megabytes <= MOST_REPORT_MB
    with capsys.disabled():
        print(f"\nimage of reports: Java, Spark and mocketmq {megabytes} MB, unpacked")  # noqa: T201


def test_the_image_for_arm64_serves(engines: Engines) -> None:
    """Linux starts its programs by an emulator."""
    with emulated_arm64(debian(TOOLS) / "usr" / "bin" / "qemu-aarch64", KEPT / "binfmt"):
        base = imported(engines, python_base("arm64"), "arm64")
        image = f"{IMAGE}-arm64"
        bake(engines, "emulator", image=image, architecture="arm64", PYTHON=base)
        assert engines.run("docker", "image", "inspect", "--format", "{{.Architecture}}", image) == "arm64"
        start = ("--platform=linux/arm64", "--network=none")
        told = engines.run("docker", "run", "--rm", *start, image, "--version")
        assert told == f"mocketmq {__version__}, compiled"
        with container(engines, *start, image) as name:
            engines.run("docker", "exec", name, "mocketmq", "send", "orders", "order 7", "--delay", "1s")
            receive = ("mocketmq", "receive", "orders", "--group", "billing", "--wait", "30s")
            assert "order 7" in engines.run("docker", "exec", name, *receive)
