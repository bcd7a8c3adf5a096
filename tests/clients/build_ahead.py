"""Build the clients that ``make interop`` needs: ``python -m tests.clients.build_ahead``.

The tests build their projects by themselves, one after another. This module runs Maven, which mostly waits
for downloads, in parallel with Cargo, which compiles. A failed build is reported but ignored, because its
test repeats it.
"""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from _pytest.outcomes import OutcomeException

from tests.clients.frameworks.versions import FOLDER as FRAMEWORKS
from tests.clients.go import building as go_building
from tests.clients.go import versions as go_versions
from tests.clients.grpc.programs import SCENARIOS, SDKS
from tests.clients.grpc.versions import FOLDER as GRPC
from tests.clients.java import building as java_building
from tests.clients.rust import building as rust_building


def _with_maven_and_go(home: Path) -> Iterator[Callable[[], object]]:
    """Run Maven's builds one after another, because two processes cannot safely share its repository."""
    yield java_building.build
    yield partial(java_building.build, FRAMEWORKS)
    for client in ("java-5.0-grpc", "java-5.2-grpc", "go-grpc"):
        yield partial(SDKS[client], GRPC / SCENARIOS[client], home)
    yield partial(go_building.build, ".", go_versions.FOLDER / "build" / "driver")


def _with_cargo(home: Path) -> Iterator[Callable[[], object]]:
    yield partial(rust_building.build, "driver")
    yield partial(SDKS["rust-grpc"], GRPC / SCENARIOS["rust-grpc"], home)


def _build_all(builds: Iterator[Callable[[], object]]) -> None:
    for build in builds:
        try:
            build()
        except OutcomeException as error:
            print(error, file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    with TemporaryDirectory() as home, ThreadPoolExecutor() as pool:
        for _ in pool.map(_build_all, (_with_maven_and_go(Path(home)), _with_cargo(Path(home)))):
            pass
