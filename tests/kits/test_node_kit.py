"""The kit for Node, tested by its own tests and in another project."""

import json
import shutil
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

import mocketmq
from tests.kits.running import environment, run
from tests.support.patience import HANGING_S

KIT = Path(__file__).parents[2] / "kits" / "node"
PROJECT = Path(__file__).with_name("node")
"""Projects whose tests use the kit, by test runner."""
SCENARIOS = Path(__file__).with_name("scenarios.json")

RUNS_ON = """
const { start } = require('mocketmq');
start().then(mq => { console.log(mq.url); setInterval(() => {}, 1000); });
"""

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        shutil.which("node") is None or shutil.which("npm") is None, reason="needs Node and npm"
    ),
]


@pytest.fixture(scope="session")
def project() -> Path:
    """The project with the packages of its lock file."""
    lock, installed = PROJECT / "package-lock.json", PROJECT / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        run("npm", "ci", cwd=PROJECT)
    return PROJECT


def test_the_kit_passes_its_own_tests() -> None:
    done = run("node", "--test", "--test-reporter", "tap", "test/", cwd=KIT)
    for scenario in json.loads(SCENARIOS.read_text("utf-8"))["scenarios"]:
        assert f"- {scenario['name']}\n" in done


def test_types_match_the_exports_of_the_kit(project: Path) -> None:
    run("npx", "tsc", "--project", ".", cwd=project)
    own = (
        "--ignoreConfig",
        "--noEmit",
        "--strict",
        "--target",
        "es2022",
        "--types",
        "",
        str(KIT / "index.d.ts"),
    )
    run("npx", "tsc", *own, cwd=project)


@pytest.mark.parametrize(
    "runner",
    [
        ("node", "--test", "node-test/"),
        ("npx", "vitest", "run", "--dir", "vitest"),
        ("npx", "jest", "--runInBand", "--rootDir", "jest"),
    ],
    ids=["node:test", "vitest", "jest"],
)
def test_a_failed_test_tells_its_story(runner: tuple[str, ...], project: Path) -> None:
    told = run(*runner, cwd=project, fails=True)
    assert "orders: 0 dead, wanted at least 1" in told
    assert "mocketmq: what the broker saw" in told
    assert "sent to orders by http: 'order 8'" in told
    assert "'order 7'" not in told  # the previous test passed


def test_all_files_of_a_jest_process_have_one_broker(project: Path) -> None:
    told = run("npx", "jest", "--runInBand", "--rootDir", "jest", "--testNamePattern", "url", cwd=project)
    urls = [line.split()[-1] for line in told.splitlines() if "the broker is at" in line]
    assert len(urls) == 2
    assert len(set(urls)) == 1


def test_the_broker_does_not_outlive_a_killed_process(project: Path) -> None:
    with subprocess.Popen(
        [shutil.which("node") or "", "--eval", RUNS_ON],
        cwd=project,
        env=environment(),
        stdout=subprocess.PIPE,
    ) as test:
        assert test.stdout is not None
        assert test.stdout.readline().startswith(b"http://")
        [broker, *_] = psutil.Process(test.pid).children(recursive=True)
        test.send_signal(signal.SIGKILL)
    broker.wait(HANGING_S)


def test_package_is_complete_and_has_the_version_of_mocketmq() -> None:
    [packed] = json.loads(run("npm", "pack", "--dry-run", "--json", cwd=KIT))
    assert packed["version"] == mocketmq.__version__
    modules = {file.name for file in KIT.glob("*.js")}
    assert {file["path"] for file in packed["files"]} == {*modules, "index.d.ts", "package.json", "README.md"}
    assert "dependencies" not in json.loads((KIT / "package.json").read_text("utf-8"))
