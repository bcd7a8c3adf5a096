"""Shows the progress of a test run in one line: ``pytest -p tests.support.progress``.

A terminal rewrites the line; other outputs get a line for each tenth of the run. Failures are named at once.
"""

from collections.abc import Generator, Sequence
from typing import Any

import pytest
from _pytest.terminal import TerminalReporter


class Progress:
    """Counts finished tests. ``pytest -n`` has one counter, in the process that starts the workers."""

    def __init__(self, terminal: TerminalReporter) -> None:
        self._terminal = terminal
        self._total = self._ended = self._failed = 0
        self._shown = -1
        terminal.showfspath = False
        terminal._show_progress_info = False

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the tests of a run without ``-n``."""
        self._total = len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Count the tests of a run with ``-n``: each worker collects all of them."""
        self._total = len(ids)

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self) -> Generator[None, tuple[str, str, Any], tuple[str, str, str]]:
        """Count a test without printing a dot or letter."""
        category, _, _ = yield
        return category, "", ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print the name of a failed test."""
        if report.failed:
            self._failed += 1
            self._terminal.ensure_newline()
            self._terminal.write_line(f"FAILED {report.nodeid} ({report.when})", red=True)

    def pytest_runtest_logfinish(self) -> None:
        """Show the progress if it has changed."""
        self._ended += 1
        percent = 100 * self._ended // max(self._total, 1)
        is_screen = self._terminal.isatty
        now = percent if is_screen else percent // 10
        if now == self._shown:
            return
        self._shown = now
        failed = f", {self._failed} failed" if self._failed else ""
        line = f"{percent:3} % · {self._ended} of {self._total} tests{failed}"
        if is_screen:
            self._terminal.rewrite(line, erase=True)
        else:
            self._terminal.write_line(line)


@pytest.hookimpl(trylast=True)  # by then the terminal reporter exists
def pytest_configure(config: pytest.Config) -> None:
    """Replace the dots, unless output is verbose or this is a worker of ``pytest -n``."""
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and config.option.verbose <= 0 and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(terminal))
