"""``mocketmq snapshot``: what its commands print and do."""

import json
from pathlib import Path

from mocketmq.cli.exit_codes import Exit
from tests.support.command_line import Shell
from tests.support.process import forked_broker


async def test_a_state_is_saved_compared_restored_and_deleted() -> None:
    async with forked_broker("--clock", "manual") as process:
        shell = Shell(process.url)
        assert await shell("snapshot", "ls") == (0, "no snapshots\n", "")
        await shell("send", "orders", "waiting", "--level", "16")
        saved = await shell("snapshot", "save", "here")
        now = json.loads((await shell("clock", "--json")).stdout)["now"]
        assert saved == (0, f"saved here: 1 records, 1 messages pending, the clock at {now}\n", "")
        assert await shell("snapshot", "diff", "here") == (0, "nothing happened\n", "")
        await shell("clock", "advance", "30m")
        await shell("snapshot", "save", "later")
        said = (await shell("snapshot", "diff", "here", "later")).stdout
        assert said == (await shell("snapshot", "diff", "here")).stdout
        assert said.splitlines()[1:] == [
            "1 message was delivered to orders",
            "pending messages: 0 (was 1)",
        ]
        restored = await shell("snapshot", "restore", "here")
        assert restored == (0, f"restored here: 1 records, 1 messages pending, the clock at {now}\n", "")
        listed = json.loads((await shell("snapshot", "ls", "--json")).stdout)["snapshots"]
        assert [one["name"] for one in listed] == ["here", "later"]
        refused = "Error: a snapshot named here already exists; delete it, or save with --replace\n"
        assert await shell("snapshot", "save", "here") == (1, "", refused)
        assert (await shell("snapshot", "save", "here", "--replace")).code == 0
        assert await shell("snapshot", "rm", "here", "later") == (0, "deleted here\ndeleted later\n", "")
        missing = await shell("snapshot", "restore", "here")
        assert missing.code == Exit.NOTHING
        assert "no snapshot is named here; there are none" in missing.stderr


async def test_the_list_names_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "broken.snapshot").write_bytes(b"nothing")
    async with forked_broker("--snapshots", str(tmp_path)) as process:
        shell = Shell(process.url)
        said = (await shell("snapshot", "ls")).stdout.splitlines()
        assert said[0] == "no snapshots"
        assert said[1].startswith("cannot read broken: snapshot broken is not a mocketmq snapshot")
        [damaged] = json.loads((await shell("snapshot", "ls", "--json")).stdout)["damaged"]
        assert damaged["name"] == "broken"
        assert await shell("snapshot", "rm", "broken") == (0, "deleted broken\n", "")
        assert await shell("snapshot", "ls") == (0, "no snapshots\n", "")
