"""Packs of failed tests: a file for each, named in the test's report."""

import json
import zipfile
from pathlib import Path

import pytest

from mocketmq import Client
from tests.support.process import opened_pack
from tests.testing.conftest import Run

pytest_plugins = ("pytester",)

PROJECT = """
import pytest

def test_passes(mocketmq):
    mocketmq.send("orders", "not packed")

@pytest.mark.parametrize("number", [7, 8])
def test_an_order_expires(mocketmq, number, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    mocketmq.send("orders", f"order {number}", delay="30m")
    mocketmq.clock.advance("29m")
    expired = mocketmq.receive("orders", group="billing")
    assert expired, "the order has not expired"

@pytest.mark.mocketmq(strict=True)
def test_leaves_one(mocketmq):
    mocketmq.send("orders", "left")
    mocketmq.receive("orders", group="billing")

def test_ends_twice(mocketmq, request):
    mocketmq.send("orders", "at the first failure")
    request.addfinalizer(lambda: (mocketmq.send("orders", "later"), 1 / 0))
    assert False

@pytest.mark.xfail
def test_is_expected(mocketmq):
    assert False

def test_kills(mocketmq):
    import os, signal
    os.kill(mocketmq.process.pid, signal.SIGKILL)
    mocketmq.process._process.wait()
    assert False

def test_without_it():
    assert False
"""


def packed(folder: Path) -> dict[str, list[str]]:
    """The bodies of the messages in each pack, by the name of its test."""
    found = {}
    for file in folder.iterdir():
        with zipfile.ZipFile(file) as archive:
            test = json.loads(archive.read("manifest.json"))["test"]
            events = archive.read("events.jsonl").decode()
        found[test.rpartition("::")[2]] = [
            body for body in ("order 7", "order 8", "left", "at the first failure", "later") if body in events
        ]
    return found


async def test_each_failed_test_leaves_a_pack_of_its_own(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(PROJECT)
    told = run("--mocketmq-pack", "packs/here")
    told.assert_outcomes(passed=2, failed=5, errors=2, xfailed=1)
    folder = pytester.path / "packs" / "here"
    assert packed(folder) == {
        "test_an_order_expires[7]": ["order 7"],
        "test_an_order_expires[8]": ["order 8"],
        "test_leaves_one": ["left"],
        "test_ends_twice": ["at the first failure"],
    }
    [file] = folder.glob("test_an_order_expires-7-*.mocketmq")
    told.stdout.fnmatch_lines(
        [
            "*_ test_an_order_expires[[]7[]] _*",
            "*-- mocketmq --*",
            "*-- mocketmq pack --*",
            f"packed; look at it with: mocketmq open {file}",
            "*_ test_kills _*",
            "*-- mocketmq pack --*",
            "no pack: the broker died by SIGKILL",
        ]
    )
    async with opened_pack(file) as process, Client(process.url) as client:
        assert await client.receive("orders", group="billing") == []
        assert (await client.move_to_next())["fired"] == 1
        [message] = await client.receive("orders", group="billing")
        assert message["body"] == "order 7"
        opened = (await client._call("GET", "/v1/pack"))["pack"]
        assert "the order has not expired" in opened["failure"]


def test_a_folder_that_cannot_be_written_is_named_and_changes_no_outcome(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile("def test_fails(mocketmq): assert False")
    (pytester.path / "packs").write_text("a file")
    told = run("--mocketmq-pack", "packs")
    told.assert_outcomes(failed=1)
    told.stdout.fnmatch_lines(["*-- mocketmq pack --*", "no pack: *File exists*"])


def test_without_the_option_nothing_is_packed(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile("def test_fails(mocketmq): assert False")
    told = run()
    told.assert_outcomes(failed=1)
    assert "mocketmq pack" not in told.stdout.str()
    assert [one.name for one in pytester.path.glob("**/*.mocketmq")] == []
