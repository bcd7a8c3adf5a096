"""The emulator's image, built and run by Podman, with Testcontainers on its socket.

``make test-image`` runs it, as root.
"""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mocketmq import __version__
from tests.kits.engines import KEPT, Engines, running_engines
from tests.kits.image_bases import python_base
from tests.kits.test_java_kit import PROJECTS, path_without_mocketmq
from tests.kits.test_roots import MOST_S, run
from tests.support.patience import HANGING_S

BASE, IMAGE = "localhost/python:3.13-slim", "localhost/mocketmq"
MOST_MB = 120
MOST_STOP_S = 1.0

pytestmark = [
    pytest.mark.by_hand,
    pytest.mark.timeout(MOST_S),
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("debootstrap") is None, reason="needs root and debootstrap"
    ),
]


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    with running_engines() as engines:
        yield engines


@pytest.fixture(scope="module")
def image(engines: Engines) -> str:
    """Build the image as the Dockerfile says, but on a base of our own."""
    archive = python_base()
    path = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    engines.run("podman", "import", "--change", f"ENV {path}", f"/kept/{archive.name}", BASE)
    arguments = [f"--build-arg={pair}" for pair in (f"PYTHON={BASE}", f"VERSION={__version__}")]
    engines.run("podman", "build", "--format", "docker", *arguments, "--tag", IMAGE, ".")
    return IMAGE


@pytest.fixture
def container(engines: Engines, image: str) -> Iterator[str]:
    """A broker in a container with a root that is read-only, and without a network."""
    strict = ("--read-only", "--tmpfs", "/tmp", "--network", "none")  # noqa: S108 - in the container
    name = engines.run("podman", "run", "--detach", *strict, image)
    wait_until_healthy(engines, name)
    yield name
    engines.run("podman", "rm", "--force", "--volumes", name)


def wait_until_healthy(engines: Engines, name: str) -> None:
    """Check the health as an engine's timer does, which needs systemd."""
    ends = time.monotonic() + HANGING_S
    status = ("podman", "ps", "--all", "--filter", f"id={name}", "--format", "{{.Status}}")
    while "(healthy)" not in engines.run(*status):
        assert time.monotonic() < ends, engines.run("podman", "logs", name)
        with suppress(AssertionError):
            engines.run("podman", "healthcheck", "run", name)
        time.sleep(0.1)


def test_it_is_small_and_says_what_it_is(
    engines: Engines, image: str, capsys: pytest.CaptureFixture[str]
) -> None:
    megabytes = int(engines.run("podman", "image", "inspect", "--format", "{{.Size}}", image)) / 1e6
    assert megabytes <= MOST_MB
    with capsys.disabled():
        print(f"\nimage: {megabytes:.1f} MB, unpacked")  # noqa: T201
    version = "org.opencontainers.image.version"
    assert engines.run(
        "podman", "image", "inspect", "--format", f'{{{{index .Labels "{version}"}}}}', image
    ) == (__version__)
    assert engines.run("podman", "image", "inspect", "--format", "{{.User}}", image) == "10001:10001"
    assert engines.run("podman", "run", "--rm", image, "--version") == f"mocketmq {__version__}, compiled"


def test_it_has_neither_shell_nor_python(engines: Engines, image: str) -> None:
    root = engines.run("podman", "image", "mount", image)
    assert {"opt", "data"} <= set(engines.run("ls", root).split())
    programs = engines.run("sh", "-c", f"ls {root}/bin {root}/usr/bin {root}/usr/local/bin || true")
    assert not [line for line in programs.splitlines() if "cannot access" not in line]
    engines.run("podman", "image", "unmount", image)


def test_a_broker_in_a_container_keeps_its_messages(
    engines: Engines, container: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert engines.run("podman", "top", container, "huser").splitlines()[1:] == ["10001"]
    engines.run("podman", "exec", container, "mocketmq", "send", "orders", "order 7")
    began = time.monotonic()
    engines.run("podman", "stop", container)
    took = time.monotonic() - began
    with capsys.disabled():
        print(f"\nstopped in {took:.2f} s")  # noqa: T201
    assert took < MOST_STOP_S
    assert engines.run("podman", "inspect", "--format", "{{.State.ExitCode}}", container) == "0"
    engines.run("podman", "start", container)
    wait_until_healthy(engines, container)
    receive = ("mocketmq", "receive", "orders", "--group", "billing", "--wait", "30s")
    assert "order 7" in engines.run("podman", "exec", container, *receive)


@pytest.mark.usefixtures("image")
def test_containers_of_the_java_kit_run_on_the_socket(engines: Engines, tmp_path: Path) -> None:
    modules = ("--projects", "mocketmq-junit5,mocketmq-testcontainers", "--also-make")
    run("mvn", "--batch-mode", "--file", "kits/java/pom.xml", *modules, "-DskipTests", "install")
    project = Path(shutil.copytree(PROJECTS / "containers", tmp_path / "containers"))
    engines.run("podman", "tag", IMAGE, "docker.io/library/mocketmq")
    given = {
        "PATH": path_without_mocketmq(),
        "DOCKER_HOST": f"unix://{KEPT}/podman.sock",
        "TESTCONTAINERS_RYUK_DISABLED": "true",  # it is an image of its own, and removes what tests leave
    }
    service = ("podman", "system", "service", "--time=0", "unix:///kept/podman.sock")
    with engines.daemon(*service, ready=("podman", "--url=unix:///kept/podman.sock", "version")):
        told = engines.beside(
            "mvn", "--batch-mode", "test", "-DargLine=-Dmocketmq.image=mocketmq", cwd=project, **given
        )
    assert "Tests run: 3, Failures: 0, Errors: 0" in told
