"""docs/agents.md lists every tool, and its configurations are valid and run ``mocketmq mcp``."""

import json
import re
import tomllib
from pathlib import Path

from mocketmq import Client
from mocketmq.mcp.bounds import MAX_ANSWER
from mocketmq.mcp.server import make_server

PAGE = (Path(__file__).parents[3] / "docs" / "agents.md").read_text()


async def test_the_page_lists_every_tool_in_order() -> None:
    tools = [tool.name for tool in await make_server(Client()).list_tools()]
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == tools
    assert f"at most {MAX_ANSWER:,} characters" in PAGE


def test_the_configurations_start_the_command() -> None:
    blocks = re.findall(r"^```(json|toml)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks] == ["json", "json", "toml"]
    for kind, text in blocks:
        [servers] = (json.loads(text) if kind == "json" else tomllib.loads(text)).values()
        assert (servers["mocketmq"]["command"], servers["mocketmq"]["args"]) == ("mocketmq", ["mcp"])
        assert servers["mocketmq"]["env"].keys() == {"MOCKETMQ_URL"}
