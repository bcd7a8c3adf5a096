"""Projects whose tests use the plugin."""

from collections.abc import Callable

import pytest

from tests.support.patience import HANGING_S

PLUGIN = "mocketmq.testing.plugin"

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs the project's tests with the plugin, and with plugins given by ``-p``."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # other plugins are slow to import

    def run(*options: str) -> pytest.RunResult:
        given = ("-p", PLUGIN, "-p", "no:cacheprovider", *options)
        return pytester.runpytest_subprocess(*given, timeout=HANGING_S)

    return run
