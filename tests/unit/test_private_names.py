"""The product uses only public names of libraries, except the names listed here with a reason."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("compat", "emulator", "migrations", "spark")

DOCUMENTED = {
    *("_asdict", "_field_defaults", "_fields", "_make", "_replace"),  # of named tuples
    *("os._exit", "sys._current_frames", "member._value_"),
}
OWN = {"client._connection"}
"""Names for objects of a class in the same file, other than ``self``."""
PRIVATE = {"spark/mocketmq_report/jvm.py: SparkContext._gateway"}
CHECKED_PYSPARK = ("4.2.", "4.3.")


def private_names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names if is_private(each.name))
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            owner = ast.unparse(node.value)
            if owner not in ("self", "cls", "super()") and node.attr not in DOCUMENTED:
                yield f"{owner}.{node.attr}"


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def test_only_listed_private_names_are_used() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for name in private_names(path)
        if name not in DOCUMENTED | OWN
    }
    assert found == PRIVATE


def test_gateway_of_the_installed_pyspark_was_checked() -> None:
    """With a newer one, run tests/spark and tests/unit/report, and add it to ``CHECKED_PYSPARK``.

    If the name no longer exists, ``session`` must keep the gateway that ``launch_gateway`` returns.
    """
    if not pyspark.__version__.startswith(CHECKED_PYSPARK):
        pytest.fail(f"SparkContext._gateway has not been looked at in PySpark {pyspark.__version__}")
    assert "_gateway" in vars(pyspark.SparkContext)
