"""The kit for Java, tested by separate projects with its installed artefacts."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mocketmq import __version__
from tests.clients.java.building import BUILD_S
from tests.support.patience import HANGING_S

ROOT = Path(__file__).parents[2]
KIT = ROOT / "kits" / "java"
PROJECTS = Path(__file__).with_name("java")
SCENARIOS = Path(__file__).with_name("scenarios.json")

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(2 * BUILD_S),
    pytest.mark.skipif(
        shutil.which("mvn") is None or shutil.which("java") is None, reason="needs Java and Maven"
    ),
]


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    """Install the artefacts, and the bundle in a jar, in Maven's local repository."""
    made = subprocess.run(
        ["make", "--no-print-directory", "kit-java"],  # noqa: S607
        check=False,
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert made.returncode == 0, made.stdout


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose tests have passed: the scenarios, and two hundred tests in one JVM."""
    project = copied("kit", tmp_path_factory.mktemp("kit"))
    told = maven(project, f"-Dscenarios={SCENARIOS}", path=path_with_mocketmq())
    scenarios = len(json.loads(SCENARIOS.read_text("utf-8"))["scenarios"])
    assert re.search(rf"Tests run: {scenarios}, Failures: 0, .* kit\.ScenariosTest", told)
    assert re.search(r"Tests run: 200, Failures: 0, .* kit\.ManyTest", told)
    return project


def copied(name: str, into: Path) -> Path:
    ignored = shutil.ignore_patterns("target")
    return Path(shutil.copytree(PROJECTS / name, into / name, ignore=ignored))


def path_with_mocketmq() -> str:
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


def path_without_mocketmq() -> str:
    folders = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if not Path(folder, "mocketmq").exists())


def maven(project: Path, *arguments: str, path: str, fails: bool = False) -> str:
    """Run the project's tests; bundles are unpacked beside the project, not in the user's cache."""
    done = subprocess.run(
        ["mvn", "--batch-mode", "test", *arguments],  # noqa: S607
        check=False,
        cwd=project,
        env=environment(path) | {"XDG_CACHE_HOME": str(project / "cache")},
        timeout=BUILD_S,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert (done.returncode != 0) == fails, done.stdout
    return done.stdout


def environment(path: str) -> dict[str, str]:
    ours = {name: text for name, text in os.environ.items() if not name.startswith("MOCKETMQ_")}
    return ours | {"PATH": path}


def waiting(project: Path, *flags: str, path: str) -> subprocess.Popen[str]:
    """A JVM that prints its broker's address and waits."""
    classes = [project / "target" / "test-classes", *KIT.glob("mocketmq-kit/target/mocketmq-kit-*.jar")]
    return subprocess.Popen(
        [java(), *flags, "-cp", os.pathsep.join(map(str, classes)), "kit.Waiting"],
        env=environment(path),
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def java() -> str:
    found = shutil.which("java")
    assert found
    return found


def listens(url: str) -> bool:
    at = urlsplit(url)
    try:
        socket.create_connection((str(at.hostname), int(at.port or 0))).close()
    except ConnectionError:  # refused, or reset by a broker that ends
        return False
    return True


def test_artefacts_have_the_version_of_mocketmq() -> None:
    for pom in [KIT / "pom.xml", *KIT.glob("*/pom.xml")]:
        assert re.findall(r"<artifactId>mocketmq-kits</artifactId>\s*<version>(.+)<", pom.read_text()) == [
            __version__
        ]


def test_new_project_needs_a_pom_and_one_class(tmp_path: Path) -> None:
    project = copied("stranger", tmp_path)
    [test] = project.glob("src/test/java/*.java")
    assert len(test.read_text().splitlines()) <= 20
    assert "Tests run: 1, Failures: 0" in maven(project, path=path_without_mocketmq())
    assert [folder.name[:12] for folder in (project / "cache" / "mocketmq").glob("*/")] == ["linux-x86_64"]


def test_eight_concurrent_forks_have_their_own_brokers(tmp_path: Path) -> None:
    """One JVM unpacks the bundle while seven wait, and each gets its own broker."""
    project = copied("stranger", tmp_path)
    [test] = project.glob("src/test/java/*.java")
    for number in range(1, 9):
        name = f"Order{number}Test"
        test.with_name(f"{name}.java").write_text(test.read_text().replace("OrderTest", name))
    test.unlink()
    told = maven(project, "-DforkCount=8", "-DreuseForks=false", path=path_without_mocketmq())
    assert "Tests run: 8, Failures: 0, Errors: 0" in told
    assert len(list((project / "cache" / "mocketmq").glob("*/"))) == 1


def test_failed_test_report_has_the_story(kit: Path) -> None:
    told = maven(kit, "-Dtest=WrongOrder*", path=path_with_mocketmq(), fails=True)
    stories = told.split("what the broker saw in this test:\n")
    assert "key: '7', not '8'" in stories[0]
    assert "sent to orders by http: keys 7 'order 7'" in stories[1]
    assert "sent to orders by http: 'order 9'" in stories[2]


def test_the_broker_does_not_outlive_a_killed_jvm(kit: Path) -> None:
    with waiting(kit, path=path_with_mocketmq()) as jvm:
        assert jvm.stdout
        url = jvm.stdout.readline().strip()
        assert listens(url)
        jvm.kill()
    ends = time.monotonic() + HANGING_S
    while listens(url):
        assert time.monotonic() < ends


def test_a_given_address_comes_first(kit: Path) -> None:
    with waiting(kit, path=path_with_mocketmq()) as one:
        assert one.stdout
        url = one.stdout.readline().strip()
        with waiting(kit, f"-Dmocketmq.url={url}/", path="") as other:
            assert other.communicate("\n")[0].strip() == url
        assert listens(url)
        one.communicate("\n")


def test_missing_broker_error_lists_every_remedy(kit: Path) -> None:
    with waiting(kit, path=path_without_mocketmq()) as jvm:
        told = jvm.communicate()[1]
    for way in ("mocketmq-bundle-linux-x86_64", "PATH", "mocketmq-testcontainers", "MOCKETMQ_URL"):
        assert way in told


def test_each_context_of_spring_has_a_broker(tmp_path: Path) -> None:
    """The third context gets a container by ``@ServiceConnection``, which a process replaces here."""
    told = maven(copied("spring", tmp_path), path=path_with_mocketmq())
    assert "Tests run: 3, Failures: 0, Errors: 0" in told
