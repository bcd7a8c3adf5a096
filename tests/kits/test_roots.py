"""Built artefacts as users get them, in a fresh Debian with at most one language and nothing of ours.

``make test-roots`` runs it, as root and with debootstrap. It prints the time that each took from an empty
folder and empty caches to a passed test.
"""

import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mocketmq import __version__

ROOT = Path(__file__).parents[2]
ROOTS = ROOT / "build" / "roots"
STRANGERS = Path(__file__).with_name("strangers")
JAVA = Path(__file__).with_name("java") / "stranger"
GO_MODULE = "github.com/mocketmq/mocketmq/kits/go"

SUITE = "trixie"
MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
NETWORK = ("etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt", "etc/ssl/certs/java/cacerts")
"""Settings with which this machine reaches registries, passed on to each root."""
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
MOST_S = 1_800

pytestmark = [
    pytest.mark.by_hand,
    pytest.mark.timeout(MOST_S),
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("debootstrap") is None, reason="needs root and debootstrap"
    ),
]


def inside(root: Path) -> list[str]:
    """Return the command prefix that confines a command to a root; its child processes end with it."""
    isolated = ("unshare", "--mount", "--pid", "--fork", "--kill-child", f"--mount-proc={root}/proc")
    return [*isolated, "chroot", str(root)]


class FreshRoot:
    """A root file system with the artefacts at ``/artefacts`` and a user's project at ``/home/project``."""

    def __init__(self, folder: Path, artefacts: Path) -> None:
        self.folder = folder
        self.project = folder / "home" / "project"
        self.project.mkdir()
        shutil.copytree(artefacts, folder / "artefacts")

    def command(self, *words: str, **variables: str) -> list[str]:
        """Return the command line for a command in the user's project."""
        given = {
            "PATH": "/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": "/root",
            "SSL_CERT_FILE": CERTIFICATES,
            "NODE_EXTRA_CA_CERTS": CERTIFICATES,
        } | variables
        pairs = [f"{name}={text}" for name, text in given.items()]
        return [*inside(self.folder), "env", "-i", "-C", "/home/project", *pairs, *words]

    def run(self, *words: str, **variables: str) -> str:
        """Run a command, which must succeed, and return its output."""
        done = subprocess.run(
            self.command(*words, **variables),
            check=False,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout


Fresh = Callable[..., FreshRoot]


@pytest.fixture(scope="module")
def artefacts() -> Path:
    """Artefacts of a release except Maven's: the bundle, a Go module proxy, npm's package."""
    run("make", "--no-print-directory", "release-check", "ARGS=bundle node")
    folder = ROOTS / "artefacts"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    [bundle] = (ROOT / "dist").glob(f"mocketmq-{__version__}-linux-*.tar.xz")
    for file in (bundle, bundle.with_name(f"{bundle.name}.sha256"), *(ROOT / "dist" / "npm").glob("*.tgz")):
        shutil.copy(file, folder)
    publish_go_module(folder / "go" / GO_MODULE / "@v")
    return folder


@pytest.fixture(scope="module")
def maven_repository(artefacts: Path) -> Path:
    """The Java kit's modules with sources and documentation, as Maven Central would have them."""
    run(sys.executable, str(ROOT / "kits" / "java" / "bundle_resources.py"))
    folder = artefacts / "maven"
    repository = f"-DaltDeploymentRepository=local::file://{folder}"
    pom = str(ROOT / "kits" / "java" / "pom.xml")
    run("mvn", "--batch-mode", "--quiet", "--file", pom, "-Prelease", "-DskipTests", repository, "deploy")
    return folder


def publish_go_module(folder: Path) -> None:
    """Write the files of Go's module proxy protocol."""
    kit, version = ROOT / "kits" / "go", f"v{__version__}"
    folder.mkdir(parents=True)
    (folder / "list").write_text(f"{version}\n")
    (folder / f"{version}.info").write_text(json.dumps({"Version": version}))
    shutil.copy(kit / "go.mod", folder / f"{version}.mod")
    with zipfile.ZipFile(folder / f"{version}.zip", "w") as module:
        for file in sorted(path for path in kit.rglob("*") if path.is_file()):
            module.write(file, f"{GO_MODULE}@{version}/{file.relative_to(kit)}")


@pytest.fixture
def fresh(artefacts: Path) -> Iterator[Fresh]:
    """Create a root with these Debian packages. Debian's files are kept for later runs; roots are removed."""
    made = []

    def make(*packages: str) -> FreshRoot:
        folder = ROOTS / "root"
        run("cp", "--archive", str(debian(packages)), str(folder))
        made.append(folder)
        return FreshRoot(folder, artefacts)

    yield make
    for folder in made:
        shutil.rmtree(folder)


def debian(packages: tuple[str, ...], architecture: str = "") -> Path:
    """Return a folder with a minimal Debian and these packages, which the first use creates.

    Another architecture than this machine's needs an emulator that the kernel calls.
    """
    ours = [architecture] if architecture else []
    folder = ROOTS / "-".join(["debian", *ours, *packages])
    if folder.exists():
        return folder
    unfinished = ROOTS / "unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    if packages:
        run("cp", "--archive", str(debian((), architecture)), str(unfinished))
        get = (*inside(unfinished), "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet")
        run(*get, "update")
        run(*get, "install", "--yes", "--no-install-recommends", *packages)
        run(*get, "clean")
    else:
        arguments = ["--variant=minbase", "--include=ca-certificates", *(f"--arch={each}" for each in ours)]
        run("debootstrap", *arguments, SUITE, str(unfinished), MIRROR)
    for file in NETWORK:
        if Path("/", file).exists() and (unfinished / file).parent.exists():
            shutil.copy(Path("/", file), unfinished / file)
    unfinished.rename(folder)
    return folder


@pytest.fixture
def timed(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Callable[[float], None]:
    """Print the time since an instant."""

    def show(began: float) -> None:
        with capsys.disabled():
            print(  # noqa: T201 - the figure is what it is for
                f"\n{request.node.name}: from empty to green in {time.monotonic() - began:.0f} s"
            )

    return show


def run(*command: str) -> None:
    done = subprocess.run(
        command, check=False, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert done.returncode == 0, done.stdout


SETTINGS = """
<settings>
  <profiles>
    <profile>
      <id>built</id>
      <repositories><repository><id>built</id><url>file:///artefacts/maven</url></repository></repositories>
    </profile>
  </profiles>
  <activeProfiles><activeProfile>built</activeProfile></activeProfiles>
</settings>
"""


@pytest.mark.usefixtures("maven_repository")
def test_java_needs_a_jdk_and_maven(fresh: Fresh, timed: Callable[[float], None]) -> None:
    root = fresh("default-jdk-headless", "maven")
    root.run("sh", "-c", "! command -v python3")
    began = time.monotonic()
    shutil.copytree(JAVA, root.project, dirs_exist_ok=True, ignore=shutil.ignore_patterns("target"))
    (root.folder / "root" / ".m2").mkdir()
    (root.folder / "root" / ".m2" / "settings.xml").write_text(SETTINGS)
    assert "Tests run: 1, Failures: 0, Errors: 0" in root.run("mvn", "--batch-mode", "test")
    timed(began)


def test_go_needs_go(fresh: Fresh, timed: Callable[[float], None], artefacts: Path) -> None:
    root = fresh("golang-go", "xz-utils")
    root.run("sh", "-c", "! command -v python3")
    began = time.monotonic()
    shutil.copytree(STRANGERS / "go", root.project, dirs_exist_ok=True)
    go = {"GOPROXY": "file:///artefacts/go", "GONOSUMDB": GO_MODULE, "GOFLAGS": "-mod=mod"}
    root.run("go", "get", f"{GO_MODULE}@v{__version__}", **go)
    assert "--- PASS: TestAnUnpaidOrder" in root.run("go", "test", "-v", "./...", **go, **bundled(artefacts))
    timed(began)


def test_node_needs_node(fresh: Fresh, timed: Callable[[float], None], artefacts: Path) -> None:
    root = fresh("nodejs", "npm", "xz-utils")
    began = time.monotonic()
    shutil.copytree(STRANGERS / "node", root.project, dirs_exist_ok=True)
    [package] = (root.folder / "artefacts").glob("*.tgz")
    root.run("npm", "install", "--save-dev", f"/artefacts/{package.name}")
    assert "# pass 1\n" in root.run("node", "--test", "--test-reporter", "tap", **bundled(artefacts))
    timed(began)


def bundled(artefacts: Path) -> dict[str, str]:
    [archive] = artefacts.glob("*.tar.xz")
    return {"MOCKETMQ_BUNDLE": f"/artefacts/{archive.name}"}


def test_the_bundle_needs_nothing(fresh: Fresh, artefacts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = fresh()
    root.run("sh", "-c", "! command -v python3")
    [archive] = artefacts.glob("*.tar.xz")
    run("tar", "-xf", str(archive), "-C", str(root.folder / "opt"))
    [program] = (root.folder / "opt").glob("*/mocketmq")
    inside = f"/{program.relative_to(root.folder)}"
    assert __version__ in root.run(inside, "--version")
    said = subprocess.run(
        [sys.executable, str(ROOT / "kits" / "bundle" / "smoke.py"), *root.command(inside)],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    )
    sizes = (archive, *program.parent.rglob("*"))
    packed, *unpacked = (file.lstat().st_size / 1e6 for file in sizes)
    with capsys.disabled():
        print(f"\n{said.stdout.strip()}; {packed:.1f} MB, unpacked {sum(unpacked):.0f} MB")  # noqa: T201
