"""The kit for Go, tested by its own tests and in another project's module."""

import json
import shutil
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.kits.running import environment, run
from tests.support.patience import HANGING_S

KIT = Path(__file__).parents[2] / "kits" / "go"
SCENARIOS = Path(__file__).with_name("scenarios.json")

MODULE = f"""
module example.com/shop

go 1.21

require github.com/mocketmq/mocketmq/kits/go v0.0.0

replace github.com/mocketmq/mocketmq/kits/go => {KIT}
"""
FAILING = """
package shop

import (
	"testing"
	"time"

	"github.com/mocketmq/mocketmq/kits/go/mocketmqtest"
)

func TestAnUnpaidOrderIsCancelled(t *testing.T) {
	mq := mocketmqtest.Start(t)
	mq.Send("orders", "order 7", mocketmqtest.With{DelayLevel: 16})
	mq.Advance(30 * time.Minute)
	mq.Expect("orders", mocketmqtest.Dead("billing"), 1, mocketmqtest.Like{Within: time.Millisecond})
}
"""
KILLED = """
package shop

import (
	"os"
	"testing"

	"github.com/mocketmq/mocketmq/kits/go/mocketmqtest"
)

func TestForEver(t *testing.T) {
	os.WriteFile("url", []byte(mocketmqtest.Start(t).URL()), 0o644)
	os.Rename("url", "ready")
	select {}
}
"""

pytestmark = [pytest.mark.interop, pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")]


def test_the_kit_passes_its_own_tests() -> None:
    done = run("go", "test", "-count=1", "-v", "./...", cwd=KIT)
    assert done.count("--- PASS: TestScenarios/") == len(
        json.loads(SCENARIOS.read_text("utf-8"))["scenarios"]
    )


def test_the_code_is_formatted_and_vetted() -> None:
    assert run("gofmt", "-l", ".", cwd=KIT) == ""
    run("go", "vet", "./...", cwd=KIT)


def test_the_log_of_a_failed_test_has_its_story(tmp_path: Path) -> None:
    write(tmp_path, FAILING)
    told = run("go", "test", "./...", cwd=tmp_path, fails=True)
    assert "orders: 0 dead at billing, wanted exactly 1" in told
    assert "sent to orders by http, parked (level 16) for 30m" in told
    assert "clock moved by 30m" in told


def test_the_broker_does_not_outlive_a_killed_test(tmp_path: Path) -> None:
    write(tmp_path, KILLED)
    run("go", "test", "-c", "-o", "shop.test", ".", cwd=tmp_path)
    with subprocess.Popen(["./shop.test"], cwd=tmp_path, env=environment()) as test:
        while not (tmp_path / "ready").exists():
            assert test.poll() is None
        [broker, *_] = psutil.Process(test.pid).children(recursive=True)
        test.send_signal(signal.SIGKILL)
    broker.wait(HANGING_S)


def write(folder: Path, test: str) -> None:
    (folder / "go.mod").write_text(MODULE)
    (folder / "shop_test.go").write_text(test)
