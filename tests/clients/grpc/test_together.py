"""RocketMQ's client for Python works in the same process as mocketmq."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.clients.grpc.programs import python
from tests.clients.grpc.versions import FOLDER
from tests.clients.remoting.driver import WAIT_S

pytestmark = pytest.mark.interop


MESSAGES = "mocketmq.grpc_proxy.messages"


@pytest.mark.parametrize("modules", [("rocketmq", MESSAGES), (MESSAGES, "rocketmq")])
def test_both_register_the_messages_of_the_protocol(modules: tuple[str, str], tmp_path: Path) -> None:
    program = python(FOLDER / "python" / "together.py", tmp_path)
    done = subprocess.run(
        [*program.command, *modules],
        check=False,
        env=os.environ | program.environment,
        timeout=WAIT_S,
        text=True,
        capture_output=True,
    )
    assert (done.stdout, done.returncode) == ("hello", 0), done.stderr
