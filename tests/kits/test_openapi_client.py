"""A generator of clients makes a working one from the OpenAPI document."""

import shutil
from pathlib import Path

import pytest

from tests.kits.running import run
from tests.support.process import forked_broker

PROJECT = Path(__file__).with_name("openapi")

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        shutil.which("node") is None or shutil.which("npm") is None, reason="needs Node and npm"
    ),
]


async def test_a_typescript_client_sends_waits_and_consumes(tmp_path: Path) -> None:
    work = tmp_path / "client"
    shutil.copytree(PROJECT, work, ignore=shutil.ignore_patterns("node_modules"))
    run("npm", "ci", "--no-audit", "--no-fund", cwd=work)
    async with forked_broker("--clock", "manual") as broker:
        # Fields with a default may be left out of requests.
        options = ("--output", "api.d.ts", "--default-non-nullable", "false")
        run("npx", "openapi-typescript", f"{broker.url}/openapi.json", *options, cwd=work)
        run("npx", "tsc", "--project", ".", cwd=work)
        assert "done" in run("node", "delayed.mjs", broker.url, cwd=work)
