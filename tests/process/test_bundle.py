"""The bundle of ``make bundle``, in a root file system with glibc and zlib but neither Python nor a shell."""

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from click import Context
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mocketmq import Client, __version__
from mocketmq.cli import commands
from mocketmq.settings import TimedSchemeName
from tests.support.compiled import compiled_modules
from tests.support.patience import HANGING_S
from tests.support.process import broker_process
from tests.support.readme import ROOT
from tests.unit.test_packaging import PYPROJECT

pytestmark = pytest.mark.slow

MOST_BYTES = 35_000_000
LIBRARIES = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libz.so.1")
"""Libraries of glibc and zlib, which every Linux with glibc has."""


@pytest.fixture(scope="module")
def archive() -> Path:
    subprocess.run(["make", "--no-print-directory", "bundle"], cwd=ROOT, check=True)  # noqa: S607
    [archive] = (ROOT / "dist").glob(f"mocketmq-{__version__}-linux-*.tar.xz")
    return archive


@pytest.fixture(scope="module")
def root(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("root")
    for folder in ("lib64", "lib/x86_64-linux-gnu", "tmp"):
        (root / folder).mkdir(parents=True)
    shutil.copy("/lib64/ld-linux-x86-64.so.2", root / "lib64")
    for library in LIBRARIES:
        shutil.copy(f"/lib/x86_64-linux-gnu/{library}", root / "lib/x86_64-linux-gnu")
    with tarfile.open(archive) as tar:
        tar.extractall(root, filter="data")
    [unpacked] = root.glob("mocketmq-*")
    unpacked.rename(root / "mocketmq")
    yield root
    shutil.rmtree(root)


def program(root: Path) -> list[str]:
    """Return the command for the bundle's ``mocketmq``, which sees nothing outside ``root``."""
    user = [] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user"]
    return [*user, "chroot", str(root), "/mocketmq/mocketmq"]


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*program(root), *arguments], check=False, capture_output=True, text=True, timeout=HANGING_S
    )


@pytest.mark.parametrize("scheme", get_args(TimedSchemeName))
async def test_a_delayed_message_is_delivered(root: Path, scheme: str) -> None:
    settings = ("--data", f"/data-{scheme}", "--timed-scheme", scheme, "--clock", "manual")
    async with broker_process(*settings, program=program(root)) as process, Client(process.url) as client:
        await client.send("orders", "late", delay_ms=7_200_000)
        assert await client.receive("orders", group="billing") == []
        await client.advance("2h")
        [message] = await client.receive("orders", group="billing")
        assert message["body"] == "late"
    assert run(root, "verify", "--data", f"/data-{scheme}").returncode == 0


@pytest.mark.parametrize(
    "command", [name for name in commands.list_commands(Context(commands)) if name != "report"]
)
def test_every_command_but_reports_is_inside(root: Path, command: str) -> None:
    done = run(root, command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: mocketmq {command}")


def test_command_starting_a_broker_finds_its_own_program(root: Path) -> None:
    done = run(root, "demo", "--messages", "20")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["report", "export", "lab", "demo"])
def test_reports_and_exports_say_where_they_are(root: Path, command: str) -> None:
    arguments = {"export": ["/mocketmq", "/out"], "demo": ["--messages", "20", "--report", "/out"]}
    done = run(root, command, *arguments.get(command, []))
    assert done.returncode == 2
    assert "use the image mocketmq-report, or install mocketmq with its extra 'report'" in done.stderr


def test_tools_for_agents_say_where_they_are(root: Path) -> None:
    done = run(root, "mcp")
    assert done.returncode == 2
    assert "install mocketmq with its extra 'mcp', which the bundle leaves out" in done.stderr


def test_bundle_is_small_and_has_a_checksum(archive: Path) -> None:
    assert archive.stat().st_size <= MOST_BYTES
    said, name = archive.with_name(f"{archive.name}.sha256").read_text().split()
    assert (said, name) == (hashlib.sha256(archive.read_bytes()).hexdigest(), archive.name)


def test_bundle_has_the_listed_modules_compiled_and_not_as_python(root: Path) -> None:
    internal = root / "mocketmq" / "_internal"
    forms = {
        name: {file.suffix for file in internal.glob(f"{name.replace('.', '/')}.*")}
        for name in compiled_modules()
    }
    assert forms == {name: {".so"} for name in forms}


def test_bundle_has_no_build_tools(root: Path) -> None:
    """PyInstaller's hooks import each of these at every start, if it is inside."""
    modules = {each.name for each in (root / "mocketmq" / "_internal").iterdir()}
    assert not modules & {"setuptools", "_distutils_hack", "distutils", "pkg_resources", "multiprocessing"}


def test_a_single_file_unpacks_itself_once(archive: Path, tmp_path: Path) -> None:
    file = archive.with_name(archive.name.replace(".tar.xz", ".run"))
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    starts = [subprocess.Popen([file, "--version"], env=env, stdout=subprocess.PIPE) for _ in range(3)]
    assert {start.communicate()[0] for start in starts} == {f"mocketmq {__version__}, compiled\n".encode()}
    [unpacked] = (tmp_path / ".cache" / "mocketmq").iterdir()
    assert not list(unpacked.glob("mocketmq-*"))
    before = unpacked.stat().st_mtime_ns
    subprocess.run([file, "topics", "--help"], env=env, check=True, stdout=subprocess.DEVNULL)
    assert unpacked.stat().st_mtime_ns == before


def test_bundle_lists_its_components_and_licences(root: Path) -> None:
    bill = json.loads((root / "mocketmq" / "sbom.cdx.json").read_text())
    named = {canonicalize_name(component["name"]) for component in bill["components"]}
    needed = map(Requirement, PYPROJECT["project"]["dependencies"])
    assert {"python", "libssl3", "libsqlite3-0", *(canonicalize_name(one.name) for one in needed)} <= named
    assert not [name for name in named if name.startswith("libreadline")], "it is under the GPL"
    texts = (root / "mocketmq" / "LICENSES.txt").read_text()
    for component in bill["components"]:
        assert f"{component['name']} {component['version']}: " in texts
