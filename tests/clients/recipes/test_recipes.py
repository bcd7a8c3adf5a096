"""Each recipe does what its page says, in a project of its own."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from mocketmq.settings import options
from tests.clients import node_sdk
from tests.clients.go.versions import FOLDER as GO
from tests.clients.recipes.pages import DOCS, PAGES, files, run, write
from tests.support.network import inside, namespaces


def test_pytest(tmp_path: Path) -> None:
    write("pytest", tmp_path)
    plugin = ("-p", "mocketmq.testing.plugin")  # others take long to import
    env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "HOME": str(tmp_path)}
    assert "5 passed" in run(sys.executable, "-m", "pytest", *plugin, "-k", "not away", cwd=tmp_path, **env)
    # RocketMQ's client for C++ may abort the process if it is closed while it connects anew, after the test.
    away = ("sh", "-c", f"{sys.executable} -m pytest {' '.join(plugin)} -v -k away || test $? = 134")
    assert "is_away PASSED" in run(*away, cwd=tmp_path, **env)


@pytest.mark.interop
@pytest.mark.parametrize("project", ["junit5", "spring-boot"])
def test_java(project: str, tmp_path: Path) -> None:
    """Each project compiles the page's files that it names, and runs their tests."""
    if shutil.which("mvn") is None or shutil.which("java") is None:
        pytest.skip("needs Java and Maven")
    shutil.copy(Path(__file__).parent / project / "pom.xml", tmp_path)
    write("junit5", tmp_path / "src" / "test" / "java")
    done = run("mvn", "--batch-mode", "test", f"-DargLine=-Duser.home={tmp_path}", cwd=tmp_path)
    assert re.search(r"Tests run: [1-9]\d*, Failures: 0, Errors: 0, Skipped: 0", done)


@pytest.mark.interop
def test_go(tmp_path: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("needs Go")
    for name in ("go.mod", "go.sum"):
        shutil.copy(GO / name, tmp_path)
    write("go", tmp_path)
    assert "--- PASS: TestAnUnpaidOrder" in run("go", "test", "-v", "./...", cwd=tmp_path)


def test_node(tmp_path: Path) -> None:
    node_sdk.install()
    write("node", tmp_path)
    modules = str(node_sdk.FOLDER / "node_modules")
    assert "# pass 1\n" in run(
        "node", "--test", "--test-force-exit", cwd=tmp_path, NODE_PATH=modules, HOME=str(tmp_path)
    )


@pytest.mark.parametrize("name", ["github.yml", "gitlab.yml"])
def test_pipelines_install_the_wheel_and_run_the_tests(name: str) -> None:
    pipeline = yaml.safe_load(files("ci")[name])
    text = str(pipeline["jobs"]["test"]["steps"] if name == "github.yml" else pipeline["test"])
    assert text.index("MOCKETMQ_WHEEL") < text.index("mvn --batch-mode verify")


def test_a_broker_that_several_programs_share(tmp_path: Path) -> None:
    script = files("ci")["shared.sh"] + "kill $!\nwait\n"
    with namespaces(network := f"ci-{os.getpid()}"):
        assert "order 7 was not paid" in run(*inside(network), "bash", "-euc", script, cwd=tmp_path)


def test_the_services_wait_for_the_broker() -> None:
    """There is no Docker in a test; what the image offers is that of our own Dockerfile."""
    services = yaml.safe_load(files("compose")["docker-compose.yml"])["services"]
    assert services["shop"]["depends_on"] == {"rocketmq": {"condition": "service_healthy"}}
    assert "HEALTHCHECK" in (DOCS.parent / "Dockerfile").read_text("utf-8")
    command = services["rocketmq"]["command"]
    assert command[0] == "serve"
    assert {word for word in command if word.startswith("--")} <= {option.flag for option in options()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\((?!http)([^)#]+)", page.read_text("utf-8")):
        assert (page.parent / link).exists()
