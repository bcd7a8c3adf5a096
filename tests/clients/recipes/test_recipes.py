"""Each recipe does what its page says, in a separate project."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from mocketmq.settings_sources import options
from tests.clients import node_sdk
from tests.clients.go.versions import FOLDER as GO
from tests.clients.grpc.programs import python
from tests.clients.recipes.java_projects import JAVA_PROJECTS, install_java_kit, write_java_project
from tests.clients.recipes.pages import DOCS, KITS, PAGES, files, run, write
from tests.support.network import inside, namespaces


def test_pytest(tmp_path: Path) -> None:
    write("pytest", tmp_path)
    plugin = ("-p", "mocketmq.testing.plugin")  # the other SDKs are slow to import
    env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "HOME": str(tmp_path)}
    tests = ("-m", "pytest", *plugin, "test_orders.py", "-v", "-k")
    assert "5 passed" in run(sys.executable, *tests, "not away", cwd=tmp_path, **env)
    # RocketMQ's C++ client may abort the process if it is closed while it reconnects after the test.
    away = ("sh", "-c", f"{sys.executable} {' '.join(tests)} away || test $? = 134")
    assert "is_away PASSED" in run(*away, cwd=tmp_path, **env)


@pytest.mark.interop
def test_pytest_over_grpc(tmp_path: Path) -> None:
    write("pytest", tmp_path)
    program = python(tmp_path / "test_shop.py", tmp_path)
    env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **program.environment}
    tests = ("-m", "pytest", "-p", "mocketmq.testing.plugin", "test_shop.py")
    assert "3 passed" in run(sys.executable, *tests, cwd=tmp_path, **env)


@pytest.fixture(scope="module")
def java_kit() -> None:
    """Install the kit's modules in Maven's local repository."""
    if shutil.which("mvn") is None or shutil.which("java") is None:
        pytest.skip("needs Java and Maven")
    install_java_kit()


@pytest.mark.interop
@pytest.mark.usefixtures("java_kit")
@pytest.mark.parametrize("project", JAVA_PROJECTS)
def test_java(project: str, tmp_path: Path) -> None:
    """Each project compiles the page's files that it names, and runs their tests."""
    write_java_project(project, tmp_path)
    done = run("mvn", "--batch-mode", "test", f"-DargLine=-Duser.home={tmp_path}", cwd=tmp_path)
    assert re.search(r"Tests run: [1-9]\d*, Failures: 0, Errors: 0, Skipped: 0", done)


@pytest.mark.interop
def test_go(tmp_path: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("needs Go")
    for name in ("go.mod", "go.sum"):
        shutil.copy(GO / name, tmp_path)
    kit = "github.com/mocketmq/mocketmq/kits/go"
    wanted = ("-go", "1.21", "-require", f"{kit}@v0.0.0", "-replace", f"{kit}={KITS / 'go'}")
    run("go", "mod", "edit", *wanted, cwd=tmp_path)
    write("go", tmp_path)
    assert "--- PASS: TestAnUnpaidOrder" in run("go", "test", "-v", "./...", cwd=tmp_path)


def test_node(tmp_path: Path) -> None:
    node_sdk.install()
    write("node", tmp_path)
    installed = tmp_path / "node_modules" / "mocketmq"
    installed.parent.mkdir()
    installed.symlink_to(KITS / "node")
    modules = str(node_sdk.FOLDER / "node_modules")
    assert "# pass 1\n" in run(
        "node", "--test", "--test-force-exit", cwd=tmp_path, NODE_PATH=modules, HOME=str(tmp_path)
    )


@pytest.mark.parametrize("name", ["github.yml", "gitlab.yml"])
def test_pipelines_install_the_wheel_and_run_the_tests(name: str) -> None:
    pipeline = yaml.safe_load(files("ci")[name])
    text = str(pipeline["jobs"]["test"]["steps"] if name == "github.yml" else pipeline["test"])
    assert text.index("MOCKETMQ_WHEEL") < text.index("mvn --batch-mode verify")


def test_several_programs_share_a_broker(tmp_path: Path) -> None:
    script = files("ci")["shared.sh"] + "kill $!\nwait\n"
    with namespaces(network := f"ci-{os.getpid()}"):
        assert "order 7 was not paid" in run(*inside(network), "bash", "-euc", script, cwd=tmp_path)


def test_a_job_reports_its_ledger(tmp_path: Path) -> None:
    script = files("ci")["report.sh"]
    by_spark = yaml.safe_load(files("ci")["github-report.yml"])[-1]["run"]
    assert by_spark.replace("--out report", "--out report --quick") in script
    with namespaces(network := f"report-{os.getpid()}"):
        assert "passed 3 thresholds" in run(*inside(network), "bash", "-euc", script, cwd=tmp_path)


def test_the_services_wait_for_the_broker() -> None:
    """Tests have no Docker, so this test checks the Dockerfile for what the page relies on."""
    services = yaml.safe_load(files("compose")["docker-compose.yml"])["services"]
    assert services["shop"]["depends_on"] == {"rocketmq": {"condition": "service_healthy"}}
    ours = yaml.safe_load((DOCS.parent / "docker-compose.yml").read_text("utf-8"))["services"]["emulator"]
    check = services["rocketmq"]["healthcheck"]
    assert check == {name: ours["healthcheck"][name] for name in check}
    command = services["rocketmq"]["command"]
    assert command[0] == "serve"
    assert {word for word in command if word.startswith("--")} <= {option.flag for option in options()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\((?!http)([^)#]+)", page.read_text("utf-8")):
        assert (page.parent / link).exists()
