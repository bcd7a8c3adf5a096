"""Wheels and sdists, installed next to projects whose packages have the same names as our folders.

Each is installed into its own environment, which has this environment's dependencies but not this checkout.
The projects' tests must pass as without mocketmq, and mocketmq must work in the projects' folders.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.process import clean_environment

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
OURS = ("emulator", "compat", "migrations", "spark")
"""Our folders that used to be packages."""

PROJECTS: Mapping[str, Mapping[str, str]] = {
    "modules": {f"{name}.py": "OWNER = 'the project'\n" for name in OURS},
    "packages": {f"{name}/__init__.py": "OWNER = 'the project'\n" for name in OURS},
    "folders": {f"{name}/job.py": "OWNER = 'the project'\n" for name in OURS},
    "mixed": {
        "compat.py": "OWNER = 'the project'\n",
        "migrations/versions/first.py": "OWNER = 'the project'\n",
        "spark/__init__.py": "OWNER = 'the project'\n",
        "emulator/__init__.py": "OWNER = 'the project'\n",
        "emulator/app.py": "OWNER = 'the project'\n",
    },
}
"""Files of each project: modules, packages, namespace packages (as in Flask-Migrate), or a mix."""

CLIENT = """
import asyncio
import sys

from mocketmq import BrokerError, Client, Settings, running_emulator


async def main() -> None:
    settings = Settings(data=":memory:", clock="manual", http_port=0, remoting=False)
    async with running_emulator(settings) as emulator, Client(emulator.url) as broker:
        await broker.send("orders", "late", delay_level=3)
        moved = await broker.advance("10s")
        [message] = await broker.receive("orders", group="shop")
        assert (moved["fired"], message["body"]) == (1, "late")
        try:
            await broker.topic("nowhere")
        except BrokerError as error:
            assert error.status == 404
        else:
            raise AssertionError


asyncio.run(main())
"""


BROKER = """
def test_it(mocketmq):
    mocketmq.send("orders", "late", delay_level=3)
    mocketmq.clock.advance("10s")
    assert mocketmq.receive("orders", group="shop")
"""


class Environment:
    """An environment with the distributions of broker and clients, or without them."""

    def __init__(self, folder: Path, *distributions: Path) -> None:
        venv.create(folder, symlinks=True)
        self.python = folder / "bin" / "python"
        self.mocketmq = folder / "bin" / "mocketmq"
        packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
        dependencies = packages / "dependencies"
        dependencies.mkdir()
        for each in Path(sysconfig.get_path("purelib")).iterdir():
            if not re.match(r"_?mocketmq|.*\.(pth|egg-link)$|__pycache__", each.name):
                (dependencies / each.name).symlink_to(each)
        (packages / "dependencies.pth").write_text(f"{dependencies}\n")
        if distributions:
            install = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
            self.run(*install, "--disable-pip-version-check", *map(str, distributions))

    def run(self, *arguments: str, cwd: Path | None = None, **environ: str) -> str:
        """Run Python with these arguments, and return its output."""
        return self.call(str(self.python), *arguments, cwd=cwd, **environ)

    def call(self, *command: str, cwd: Path | None = None, **environ: str) -> str:
        """Run the command, which must succeed, and return its output."""
        env = {name: text for name, text in clean_environment().items() if name != "PYTHONPATH"} | environ
        done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def serving(self, data: Path, cwd: Path, *command: str, **environ: str) -> Iterator[str]:
        """Run a broker with a stopped clock on the data, and return its address."""
        serve = (*command, "serve", "--port", "0", "--clock", "manual", "--data", str(data))
        with subprocess.Popen(
            serve, stdout=subprocess.PIPE, text=True, cwd=cwd, env=clean_environment() | environ
        ) as process:
            try:
                assert process.stdout is not None
                address = re.search(r"http://\S+:\d+", process.stdout.readline())
                assert address
                yield address[0]
            finally:
                process.terminate()
        assert process.returncode == 0


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[Path]]:
    """Wheels and sdists of clients and broker. The sdists build the same wheels."""
    built: dict[str, list[Path]] = {"wheel": [], "sdist": []}
    build = (sys.executable, "-m", "hatchling", "build", "-t")
    for source in (ROOT / "kits" / "python", ROOT):
        folder = tmp_path_factory.mktemp("dist")
        subprocess.run([*build, "wheel", "-d", folder], cwd=source, check=True, capture_output=True)
        subprocess.run([*build, "sdist", "-d", folder], cwd=source, check=True, capture_output=True)
        [sdist], [wheel] = folder.glob("*.tar.gz"), folder.glob("*.whl")
        shutil.unpack_archive(sdist, folder, filter="data")
        unpacked = folder / sdist.name.removesuffix(".tar.gz")
        subprocess.run(
            [*build, "wheel", "-d", folder / "again"], cwd=unpacked, check=True, capture_output=True
        )
        [again] = (folder / "again").glob("*.whl")
        assert again.read_bytes() == wheel.read_bytes()
        built["wheel"].append(wheel)
        built["sdist"].append(sdist)
    return built


@pytest.fixture(scope="session")
def installed(
    request: pytest.FixtureRequest,
    distributions: Mapping[str, Sequence[Path]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Environment:
    """An environment for each distribution format."""
    return Environment(tmp_path_factory.mktemp("installed"), *distributions[request.param])


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment without mocketmq."""
    return Environment(tmp_path_factory.mktemp("bare"))


@pytest.fixture
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A project with its own packages, and with tests that each import one package."""
    files = PROJECTS[request.param]
    modules = [name.removesuffix(".py").replace("/", ".").removesuffix(".__init__") for name in files]
    tests = "\n".join(
        f"def test_{module.replace('.', '_')}():\n    from {module} import OWNER\n"
        "    assert OWNER == 'the project'\n"
        for module in modules
    )
    for name, text in {**files, "test_own.py": tests}.items():
        file = tmp_path / "project" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "project"


def own_tests(environment: Environment, project: Path, **environ: str) -> None:
    """Run the project's tests, which must all pass."""
    environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # projects have few plugins, and ours are slow to import
    told = environment.run("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=project, **environ)
    tests = (project / "test_own.py").read_text().count("def test_")
    assert re.search(rf"^{tests} passed in", told, re.MULTILINE)


EACH = pytest.mark.parametrize("installed", ["wheel", "sdist"], indirect=True)


BESIDE = pytest.mark.parametrize(
    ("installed", "project"), [*(("wheel", name) for name in PROJECTS), ("sdist", "mixed")], indirect=True
)
"""The sdist builds the same wheel byte for byte, so it is tested with only one project."""


@BESIDE
def test_project_tests_pass_as_without_mocketmq(
    installed: Environment, bare: Environment, project: Path
) -> None:
    own_tests(bare, project)
    for environ in ({}, {"PYTHONPATH": "."}):
        own_tests(installed, project, **environ)
    (project / "conftest.py").write_text("from mocketmq import Client, Settings, running_emulator\n")
    own_tests(installed, project)


@BESIDE
def test_command_works_in_a_project_that_shadows_its_folders(
    installed: Environment, project: Path, tmp_path: Path
) -> None:
    environ = {"PYTHONPATH": "."}
    (project / "use.py").write_text(CLIENT)
    installed.run("use.py", cwd=project, **environ)
    command = (str(installed.python), "-m", "mocketmq")
    with installed.serving(tmp_path / "data", project, *command, **environ) as url:
        there = {**environ, "MOCKETMQ_URL": url}
        installed.call(*command, "send", "orders", "late", "--level", "3", cwd=project, **there)
        installed.call(*command, "clock", "advance", "10s", cwd=project, **there)
        told = installed.call(*command, "receive", "orders", "--group", "g", "--json", cwd=project, **there)
        assert '"late"' in told


@BESIDE
def test_plugin_serves_project_tests(installed: Environment, project: Path) -> None:
    """The plugin is loaded by its entry point. ``pytest`` finds it without ``-p`` unless autoload is off."""
    (project / "conftest.py").write_text("import pytest\n")
    (project / "test_broker.py").write_text(BROKER)
    environ = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": "."}
    told = installed.run(
        *("-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "-p", "mocketmq"),
        cwd=project,
        **environ,
    )
    assert re.search(r"^\d+ passed in", told, re.MULTILINE)


@EACH
def test_report_works_beside_a_project_with_equal_names(installed: Environment, tmp_path: Path) -> None:
    project = tmp_path / "project"
    for name, text in PROJECTS["mixed"].items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    with installed.serving(tmp_path / "data", project, str(installed.mocketmq), PYTHONPATH=".") as url:
        there = {"PYTHONPATH": ".", "MOCKETMQ_URL": url}
        installed.call(
            str(installed.mocketmq), "send", "orders", "late", "--level", "3", cwd=project, **there
        )
        installed.call(str(installed.mocketmq), "clock", "advance", "10s", cwd=project, **there)
    spark = {"PYTHONPATH": ".", "SPARK_CONF_DIR": os.environ["SPARK_CONF_DIR"]}
    told = installed.call(
        str(installed.mocketmq), "report", str(tmp_path / "data"), "--json", cwd=project, **spark
    )
    assert json.loads(told)["lateness"][0]["measured"] == 1


@pytest.mark.parametrize("installed", ["wheel"], indirect=True)
def test_a_type_checker_sees_the_public_names(installed: Environment, tmp_path: Path) -> None:
    users = CLIENT.replace("asyncio.run(main())", "reveal_type(Client)\nreveal_type(running_emulator)\n")
    (tmp_path / "users.py").write_text(f"{users}\nfrom mocketmq import __version__, load_settings\n")
    mypy = ("-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"))
    told = installed.run(*mypy, "users.py", cwd=tmp_path)
    assert "mocketmq.client.asynchronous.Client" in told
    assert "_AsyncGeneratorContextManager[mocketmq.app.Emulator" in told

    (tmp_path / "users.py").write_text("from mocketmq import Nothing\n")
    with pytest.raises(AssertionError, match='"mocketmq" has no attribute "Nothing"'):
        installed.run(*mypy, "users.py", cwd=tmp_path)
