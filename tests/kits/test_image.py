"""The image, built by Buildah and run by Podman; debootstrap makes its base, in place of a registry.

``make test-image`` runs it, as root. The engines' data are in ``build/image``.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mocketmq import __version__
from tests.kits.test_roots import MOST_S, ROOT, debian, run
from tests.support.patience import HANGING_S

TOOLS = ("debootstrap", "buildah", "podman")
ENGINES = ROOT / "build" / "image"
BASE, IMAGE = "localhost/python:3.13-slim", "localhost/mocketmq"
MOST_MB = 120
MOST_STOP_S = 1.0

STORE = ("--root", str(ENGINES / "store"), "--runroot", str(ENGINES / "run"), "--storage-driver", "vfs")
LIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
"""Lower than the engines' own, which need a capability that some machines keep from root."""
NO_CGROUP_2 = "umount /sys/fs/cgroup/unified 2>/dev/null; echo ready; exec sleep infinity"
"""crun 1.8 does not run beside a second version of control groups, so the engines do not see it."""

pytestmark = [
    pytest.mark.by_hand,
    pytest.mark.timeout(MOST_S),
    pytest.mark.skipif(
        os.geteuid() != 0 or not all(map(shutil.which, TOOLS)), reason=f"needs root and {', '.join(TOOLS)}"
    ),
]

Engine = Callable[..., str]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """Run a command of Podman or Buildah, which must succeed, and return its output."""
    ENGINES.mkdir(parents=True, exist_ok=True)
    alone = ("unshare", "--mount", "--kill-child", "--fork", "sh", "-c", NO_CGROUP_2)
    with subprocess.Popen(alone, text=True, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "ready\n"
        [child] = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()

        def call(program: str, *words: str) -> str:
            entered = ("nsenter", "--mount", "--target", child, f"--wd={ROOT}", program, *STORE)
            done = subprocess.run([*entered, *words], check=False, text=True, capture_output=True)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout.strip()

        yield call
        holder.kill()


@pytest.fixture(scope="module")
def image(engine: Engine) -> str:
    """Build the image as the Dockerfile says, but on a base of our own."""
    base = ENGINES / "base"
    if not base.exists():
        unfinished = ENGINES / "unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        run("cp", "--archive", str(debian(("libpython3.13", "python3-venv"))), str(unfinished))
        run(
            "chroot", str(unfinished), "python3", "-m", "venv", "/usr/local"
        )  # a pip that Debian has no part in
        unfinished.rename(base)
    archive = ENGINES / "base.tar"
    run("tar", "--create", "--file", str(archive), "--directory", str(base), ".")
    path = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    engine("podman", "import", "--change", f"ENV {path}", str(archive), BASE)
    archive.unlink()
    arguments = [f"--build-arg={pair}" for pair in (f"PYTHON={BASE}", f"VERSION={__version__}")]
    built = ("--isolation", "chroot", "--format", "docker", *LIMITS, *arguments, "--tag", IMAGE)
    engine("buildah", "bud", *built, str(ROOT))
    return IMAGE


@pytest.fixture
def container(engine: Engine, image: str) -> Iterator[str]:
    """A broker in a container with a root that is read-only, and without a network."""
    strict = ("--read-only", "--tmpfs", "/tmp", "--network", "none")  # noqa: S108 - in the container
    name = engine("podman", "run", "--detach", *strict, *LIMITS, image)
    wait_until_healthy(engine, name)
    yield name
    engine("podman", "rm", "--force", "--volumes", name)


def wait_until_healthy(engine: Engine, name: str) -> None:
    """Check the health as an engine's timer does, which needs systemd."""
    ends = time.monotonic() + HANGING_S
    status = ("podman", "ps", "--all", "--filter", f"id={name}", "--format", "{{.Status}}")
    while "(healthy)" not in engine(*status):
        assert time.monotonic() < ends, engine("podman", "logs", name)
        with suppress(AssertionError):
            engine("podman", "healthcheck", "run", name)
        time.sleep(0.1)


def test_it_is_small_and_says_what_it_is(
    engine: Engine, image: str, capsys: pytest.CaptureFixture[str]
) -> None:
    megabytes = int(engine("podman", "image", "inspect", "--format", "{{.Size}}", image)) / 1e6
    assert megabytes <= MOST_MB
    with capsys.disabled():
        print(f"\nimage: {megabytes:.1f} MB, unpacked")  # noqa: T201
    version = "org.opencontainers.image.version"
    assert engine("podman", "image", "inspect", "--format", f'{{{{index .Labels "{version}"}}}}', image) == (
        __version__
    )
    assert engine("podman", "image", "inspect", "--format", "{{.User}}", image) == "10001:10001"


def test_it_has_neither_shell_nor_python(engine: Engine, image: str) -> None:
    root = Path(engine("podman", "image", "mount", image))
    assert {path.name for path in root.iterdir()} >= {"opt", "data"}
    for folder in ("bin", "usr/bin", "usr/local/bin"):
        assert not list((root / folder).glob("*"))
    engine("podman", "image", "unmount", image)


def test_a_broker_in_a_container_keeps_its_messages(
    engine: Engine, container: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert engine("podman", "top", container, "huser").splitlines()[1:] == ["10001"]
    engine("podman", "exec", container, "mocketmq", "send", "orders", "order 7")
    began = time.monotonic()
    engine("podman", "stop", container)
    took = time.monotonic() - began
    with capsys.disabled():
        print(f"\nstopped in {took:.2f} s")  # noqa: T201
    assert took < MOST_STOP_S
    assert engine("podman", "inspect", "--format", "{{.State.ExitCode}}", container) == "0"
    engine("podman", "start", container)
    wait_until_healthy(engine, container)
    receive = ("mocketmq", "receive", "orders", "--group", "billing", "--wait", "30s")
    assert "order 7" in engine("podman", "exec", container, *receive)
