"""The list of points at which a crash test can kill matches the code exactly."""

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mocketmq
import mocketmq_compat
import mocketmq_migrations
from mocketmq.failpoint import ENVIRONMENT, POINTS

PACKAGES = [
    Path(package.__file__ or "").parent for package in (mocketmq_compat, mocketmq, mocketmq_migrations)
]


def test_failpoints_of_the_code_match_the_list() -> None:
    nodes = [
        node
        for package in PACKAGES
        for path in package.rglob("*.py")
        if path.name != "failpoint.py"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
    ]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    passed = {
        call.args[0].value
        for call in calls
        if getattr(call.func, "id", "") == "pass_point" and isinstance(call.args[0], ast.Constant)
    }
    # Code that saves in groups receives its points as arguments.
    named = {node.value for node in nodes if isinstance(node, ast.Constant)}
    assert passed <= set(POINTS) <= named
    assert len(set(POINTS)) == len(POINTS)


@pytest.mark.parametrize(("count", "reached"), [("", 0), (":1", 0), (":3", 2)])
def test_process_is_killed_at_the_given_pass_of_a_point(count: str, reached: int) -> None:
    code = (
        "from mocketmq.failpoint import pass_point\n"
        "for n in range(9): pass_point('other'); pass_point('clock.fired'); print(n, flush=True)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, ENVIRONMENT: f"clock.fired{count}"},
        capture_output=True,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    assert ended.stdout.split() == [b"%d" % n for n in range(reached)]
