"""mocketmq-client, the distribution for environments of applications (kits/python)."""

import ast
import re
import sys
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from mocketmq import __version__

ROOT = Path(__file__).parents[2]
KIT = ROOT / "kits" / "python"
PACKAGE = ROOT / "emulator" / "mocketmq"
BROKER = tomllib.loads((ROOT / "pyproject.toml").read_text())
CLIENT = tomllib.loads((KIT / "pyproject.toml").read_text())
OF_LIBRARIES = {"aiohttp": "client/asynchronous.py", "yarl": "client/asynchronous.py", "pytest": "testing/"}
"""Places where the distribution may import packages that it does not depend on."""


def files() -> tuple[str, ...]:
    spec = spec_from_file_location("hatch_build", KIT / "hatch_build.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    names: tuple[str, ...] = module.FILES
    return names


def modules() -> dict[str, ast.Module]:
    paths = [path for name in files() for path in [PACKAGE / name, *(PACKAGE / name).rglob("*.py")]]
    return {
        str(path.relative_to(PACKAGE)): ast.parse(path.read_text(), feature_version=(3, 9))
        for path in paths
        if path.suffix == ".py"
    }


def test_no_file_is_in_both_distributions() -> None:
    excluded = BROKER["tool"]["hatch"]["build"]["targets"]["wheel"]["exclude"]
    assert excluded == [f"/emulator/mocketmq/{name}" for name in files()]


def test_it_depends_on_nothing_and_the_broker_on_it() -> None:
    assert "dependencies" not in CLIENT["project"]
    assert f"mocketmq-client=={__version__}" in BROKER["project"]["dependencies"]


def test_it_has_the_licence() -> None:
    """The licence must be a copy, because a link would point outside the sdist."""
    assert (KIT / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_lint_holds_it_to_its_oldest_python() -> None:
    assert CLIENT["project"]["requires-python"] == ">=3.9"
    targets = BROKER["tool"]["ruff"]["per-file-target-version"]
    assert set(targets.values()) == {"py39"}
    named = {name.removesuffix(".py") for pattern in targets for name in re.split(r"[{},/]", pattern)}
    assert {name.removesuffix(".py") for name in files()} - {"py"} <= named | {"py.typed"}


def test_it_imports_itself_and_the_standard_library() -> None:
    own = {
        f"mocketmq.{name.removesuffix('.py').replace('/', '.').removesuffix('.__init__')}"
        for name in modules()
    }
    for name, tree in modules().items():
        if name == "__init__.py":
            continue  # it imports its names on first use
        for node in _at_run_time(tree):
            imported = (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
            )
            for module in imported:
                top = module.partition(".")[0]
                if top == "mocketmq":
                    assert module in {*own, "mocketmq"} or (name, module) == (
                        "testing/finding.py",
                        "mocketmq.own_command",
                    ), (name, module)
                elif top not in sys.stdlib_module_names:
                    assert name.startswith(OF_LIBRARIES[top]), (name, module)


def test_annotations_are_not_evaluated_which_python_3_9_could_not() -> None:
    for name, tree in modules().items():
        if any(isinstance(node, ast.arg | ast.AnnAssign) for node in ast.walk(tree)):
            futures = [
                node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"
            ]
            assert [alias.name for node in futures for alias in node.names] == [
                "annotations"
            ] or name.endswith("__init__.py")


def _at_run_time(tree: ast.AST) -> list[ast.Import | ast.ImportFrom]:
    found = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(node)
        found += _at_run_time(node)
    return found
