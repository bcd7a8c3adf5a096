"""Docker and Podman of Debian 13, in a root that shares neither network nor processes with this machine.

Debian's files are kept in ``build/roots`` for later runs, what the engines write in ``build/image``.
"""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.kits.test_roots import ROOT, debian
from tests.support.patience import HANGING_S

TOOLS: Final = (
    *("docker.io", "docker-cli", "docker-buildx", "docker-compose", "podman", "crun"),
    *("iptables", "nftables", "aardvark-dns", "slirp4netns", "iproute2", "qemu-user"),
)
KEPT: Final = ROOT / "build" / "image"
"""The engines' images and sockets; ``/kept`` inside."""

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DOCKER: Final = {"data-root": "/kept/docker", "features": {"containerd-snapshotter": True}}
_PODMAN: Final = {
    "storage.conf": '[storage]\ndriver = "overlay"\ngraphroot = "/kept/podman"\nrunroot = "/run/podman"\n',
    # Lower than Podman's own, which need a capability that some machines keep from root.
    "containers.conf": '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n',
}
# The engines need a root that is a mount, and do not run beside a second version of control groups.
_PREPARE: Final = """
set -e
mkdir -p "$1/kept" "$1/source"
mount --bind "$1" "$1"
cd "$1"
mount --bind "$2" kept
mount --bind "$3" source
mount --rbind /dev dev
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /sys/fs/cgroup sys/fs/cgroup
umount sys/fs/cgroup/unified 2>/dev/null || true
mount -t tmpfs run run
pivot_root . mnt
exec chroot . sh -c "umount --lazy /mnt; ip link set lo up; echo ready; exec tini -- sleep infinity"
"""


class Engines:
    """A root in which engines run. ``pid`` is its first process, with which it ends."""

    def __init__(self, pid: str) -> None:
        self.pid = pid

    def command(self, *words: str, cwd: str = "/source", **variables: str) -> list[str]:
        """Return the command line of a command inside."""
        given = {
            "PATH": _PATH,
            "HOME": "/root",
            "CONTAINERS_STORAGE_CONF": "/kept/storage.conf",
            "CONTAINERS_CONF_OVERRIDE": "/kept/containers.conf",
            "PODMAN_IGNORE_CGROUPSV1_WARNING": "1",
        } | variables
        pairs = [f"{name}={text}" for name, text in given.items()]
        entered = ["nsenter", "--mount", "--pid", "--net", f"--target={self.pid}"]
        return [*entered, "env", "-i", "-C", cwd, *pairs, *words]

    def run(self, *words: str, code: int = 0, cwd: str = "/source", **variables: str) -> str:
        """Run a command inside, which must end with this exit code, and return its output."""
        return _run(*self.command(*words, cwd=cwd, **variables), code=code)

    def beside(self, *words: str, cwd: Path = ROOT, **variables: str) -> str:
        """Run a command of this machine in the engines' network."""
        pairs = [f"{name}={text}" for name, text in variables.items()]
        return _run("nsenter", "--net", f"--target={self.pid}", "env", f"--chdir={cwd}", *pairs, *words)

    @contextmanager
    def daemon(self, *words: str, ready: tuple[str, ...]) -> Iterator[None]:
        """A daemon inside, which runs until the root's end. It is ready when another command succeeds."""
        log = KEPT / f"{words[0]}.log"
        with (
            log.open("w") as output,
            subprocess.Popen(self.command(*words), stdout=output, stderr=output) as process,
        ):
            try:
                self.wait_for(*ready)
                yield
            except AssertionError as error:
                error.add_note(log.read_text())
                raise
            finally:
                process.kill()

    def wait_for(self, *words: str) -> None:
        """Repeat a command inside until it succeeds."""
        ends = time.monotonic() + HANGING_S
        while (done := _ran(*self.command(*words))).returncode != 0:
            assert time.monotonic() < ends, done.stdout
            time.sleep(0.1)


@contextmanager
def running_engines() -> Iterator[Engines]:
    """Open the root; slirp4netns connects it to this machine's network."""
    root = debian(TOOLS)
    KEPT.mkdir(parents=True, exist_ok=True)
    for name, text in {"docker.json": json.dumps(_DOCKER), **_PODMAN}.items():
        (KEPT / name).write_text(text)
    alone = ("unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "sh", "-c", _PREPARE, "sh")
    with subprocess.Popen([*alone, root, KEPT, ROOT], text=True, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "ready\n"
        [pid] = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
        enter = ("nsenter", "--mount", f"--target={pid}")
        connect = ("slirp4netns", "--configure", "--disable-host-loopback", "1", "tap0")
        null = subprocess.DEVNULL
        with subprocess.Popen([*enter, *connect], stdout=null, stderr=null) as network:
            try:
                engines = Engines(pid)
                engines.wait_for("ip", "route", "get", "198.51.100.1")
                yield engines
            finally:
                network.kill()
                holder.kill()


def _run(*words: str, code: int = 0) -> str:
    done = _ran(*words)
    assert done.returncode == code, done.stdout
    return done.stdout.strip()


def _ran(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        check=False,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
