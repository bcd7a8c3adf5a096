"""``mocketmq seed``: files in three formats, and errors with their place."""

import json
from pathlib import Path

import pytest

from mocketmq.cli import commands
from tests.support.command_line import Shell, runner
from tests.support.process import forked_broker

FILES = {
    "a.toml": '[[messages]]\ntopic = "orders"\nbody = "x"\ndelay = "1h"\nsent_at = "-10m"\n',
    "a.jsonl": '{"topic": "orders", "body": "x", "delay": "1h", "sent_at": "-10m"}\n',
    "a.csv": "topic,body,delay,sent_at\norders,x,1h,-10m\n",
}

PAST = """
[[messages]]
topic = "past"
body = "waits"
delay = "1h"

[[messages]]
topic = "past"
body = "failed"
failed = { billing = 2 }

[[messages]]
topic = "past"
body = "dead"
dead = { billing = 17 }
"""


async def test_files_are_stored_in_every_format(tmp_path: Path) -> None:
    async with forked_broker("--clock", "manual") as process:
        shell = Shell(process.url)
        for name, text in FILES.items():
            (tmp_path / name).write_text(text)
            ended = await shell("seed", str(tmp_path / name))
            assert ended == (0, "stored 1 message: 1 pending\n", "")
        (tmp_path / "past.toml").write_text(PAST)
        ended = await shell("seed", str(tmp_path / "past.toml"))
        assert ended == (0, "stored 3 messages: 1 pending, 1 to be retried, 1 dead letter\n", "")
        (tmp_path / "plain.toml").write_text('[[messages]]\ntopic = "orders"\nbody = "x"\n')
        ended = await shell("seed", str(tmp_path / "plain.toml"))
        assert ended == (0, "stored 1 message\n", "")
        assert len(json.loads((await shell("delayed", "ls", "--json")).stdout)["messages"]) == len(FILES) + 2
        (tmp_path / "wrong.csv").write_text("topic,body,delay\norders,x,3 weeks\n")
        ended = await shell("seed", str(tmp_path / "wrong.csv"))
        assert ended.code == 1
        assert f"{tmp_path}/wrong.csv, line 2, column 10: delay is '3 weeks'; allowed: a dur" in ended.stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [("seeds.txt", "allowed: toml, jsonl, csv; or a file that ends in"), ("none.toml", "No such file")],
)
def test_a_wrong_file_is_refused_before_a_broker_is_asked(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_text("")
    ended = runner().invoke(commands, ["seed", str(tmp_path / name), "--url", "http://127.0.0.1:9"])
    assert ended.exit_code != 0
    assert message in ended.output + ended.stderr + str(ended.exception)
