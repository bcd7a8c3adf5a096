"""Steps that are easily forgotten when a dependency or a package is added."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
DEPENDENCIES = [
    line for line in PYPROJECT["project"]["dependencies"] if not line.startswith("mocketmq-client")
]
"""Dependencies from other projects; `mocketmq-client` is built from the same checkout."""
GROUPS: dict[str, list[Any]] = PYPROJECT["dependency-groups"]
RUNTIME = [*DEPENDENCIES, *GROUPS["build"]]
DEVELOPMENT = [
    line for group in ("compile", "source", "test", "dev") for line in GROUPS[group] if isinstance(line, str)
]
REPORT = PYPROJECT["project"]["optional-dependencies"]["report"]
MCP = PYPROJECT["project"]["optional-dependencies"]["mcp"]
EXTRAS = [
    line for extra in ("relay", "sorted") for line in PYPROJECT["project"]["optional-dependencies"][extra]
]


def pins(lock: str) -> dict[str, str]:
    """Return the version of every distribution in a lock file."""
    return dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", (ROOT / lock).read_text(), re.MULTILINE))


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        ("requirements.lock", RUNTIME),
        ("requirements-report.lock", RUNTIME + REPORT),
        ("requirements-bundle.lock", RUNTIME + EXTRAS + GROUPS["bundle"] + GROUPS["compile"]),
        ("requirements-dev.lock", RUNTIME + REPORT + EXTRAS + MCP + DEVELOPMENT),
    ],
)
def test_locks_satisfy_pyproject(lock: str, wanted: list[str]) -> None:
    pinned = pins(lock)
    for requirement in map(Requirement, wanted):
        assert pinned[canonicalize_name(requirement.name)] in requirement.specifier, requirement


def test_compiling_is_asked_for_and_needs_what_the_group_says() -> None:
    wheel = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    hook = wheel["hooks"]["custom"]
    assert hook["enable-by-default"] is False, "an installation from sources needs no compiler"
    assert (ROOT / hook["path"]).exists()
    assert hook["dependencies"] == GROUPS["compile"]


def test_development_lock_has_the_shipped_versions() -> None:
    for lock in ("requirements-dev.lock", "requirements-bundle.lock"):
        assert pins("requirements.lock").items() <= pins(lock).items()


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-bundle.lock", "requirements-dev.lock"])
def test_locks_name_no_index(lock: str) -> None:
    assert not re.search(r"://|^-|file:|@ ", (ROOT / lock).read_text(), re.MULTILINE)


def test_every_package_is_in_the_wheel_the_image_and_the_type_check() -> None:
    folders = {str(path.parent.relative_to(ROOT)) for path in ROOT.glob("[!.]*/mocketmq*/__init__.py")}
    wheel = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert folders == set(wheel["packages"])
    roots = {str(Path(folder).parent) for folder in folders}
    assert roots == set(wheel["dev-mode-dirs"]) == set(PYPROJECT["tool"]["mypy"]["mypy_path"])
    assert {Path(folder).name for folder in folders} == set(PYPROJECT["tool"]["mypy"]["packages"]) - {"tests"}
    assert roots <= set(re.findall(r"^!(\w+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))


def test_requirements_of_users_have_an_upper_bound_only_with_a_reason() -> None:
    bounded = {
        requirement.name
        for requirement in map(Requirement, DEPENDENCIES + REPORT + EXTRAS + MCP)
        if not {each.operator for each in requirement.specifier} <= {">="}
    }
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    for name in bounded:
        [line] = [line for line in lines if line.startswith(f'    "{name}>=')]
        assert re.search(r"<.*  # .*[a-z]", line), f"why may {name} not be newer?"


def test_image_build_includes_readme_and_licence() -> None:
    project = PYPROJECT["project"]
    papers = [project["readme"], *project["license-files"]]
    assert {f"!{paper}" for paper in papers} <= set((ROOT / ".dockerignore").read_text().splitlines())
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert project["license"] == "Apache-2.0"


def test_the_files_of_the_console_are_in_the_wheel_and_the_source() -> None:
    from hatchling.builders.sdist import SdistBuilder
    from hatchling.builders.wheel import WheelBuilder

    console = ROOT / "emulator/mocketmq/console"
    files = {f"mocketmq/console/{path.name}" for path in console.iterdir() if path.is_file()}
    assert "mocketmq/console/index.html" in files
    for builder, prefix in ((WheelBuilder(str(ROOT)), ""), (SdistBuilder(str(ROOT)), "emulator/")):
        included = {file.distribution_path for file in builder.recurse_included_files()}
        assert {f"{prefix}{name}" for name in files} <= included
