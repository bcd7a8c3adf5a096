"""Stores, rollups and reports of the previous version are read as before."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mocketmq_report import command
from tests.support.command_line import runner
from tests.support.spark import Running
from tests.support.version_before import unpack

NEW = {"causes", "delay_limits"}
"""Fields that reports did not have then."""


@pytest.mark.parametrize(
    ("part", "apart"),
    [
        ("store", set[str]()),
        ("rollup", {"timeline", "quality"}),
    ],  # a rollup keeps minutes, but no undelivered rows
)
def test_report_of_the_previous_version_compares_as_equal(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, apart: set[str]
) -> None:
    monkeypatch.setattr("mocketmq_report.session.starting", lambda **_: nullcontext(Running(spark)))
    data, was = unpack(part, tmp_path), unpack("report/report.json", tmp_path)
    if part == "store":  # a store is read with today's names; a rollup or report keeps its old names
        was.write_text(was.read_text().replace("second-directories", "directories"))
    options = ("--out", tmp_path / "now", "--compare", was, "--json")
    done = runner().invoke(command.report, [*map(str, (data, *options))])
    assert done.exit_code == 0, done.stderr
    now, then = json.loads(done.stdout), json.loads(was.read_text())
    told = now.keys() - {"schema_version", "header", *NEW, "comparison"} - apart
    assert now.keys() == then.keys() | NEW
    now["stages"] = [each for each in now["stages"] if each["dimension"] != "group"]
    now["disorder"] = [
        {name: value for name, value in each.items() if name != "scheme"}
        for each in now["disorder"]
        if each["scheme"] == "levels"
    ]
    assert {name: now[name] for name in told} == {name: then[name] for name in told}
