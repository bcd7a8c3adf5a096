"""Two hundred tests with each kit; the floor is the same run with empty tests.

Each test sends a delayed message, moves the clock by half an hour and expects the message to be delivered.
The kit resets the broker before each test. A run of 200 tests takes longer than a run of one; the difference,
divided by 199, is the time of a test. So the starts of the runner and of the broker do not count. All tests
are compiled before.
"""

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import NamedTuple

from tests.bench.figures import Figure
from tests.bench.progress import rounds
from tests.clients.recipes.java_projects import install_java_kit
from tests.clients.recipes.pages import KITS
from tests.kits.running import run
from tests.kits.test_go_kit import MODULE
from tests.kits.test_java_kit import PROJECTS

TESTS = 200
FORKS = 8

_PYTHON = """
import os
import pytest

@pytest.mark.parametrize("number", range(int(os.environ["TESTS"])))
def test_order(mocketmq, number):
    mocketmq.send("orders", "order 7", keys=["7"], delay_level=16)
    mocketmq.clock.advance("30m")
    mocketmq.assert_delivered("orders", count=1)
"""
_PYTHON_FLOOR = """
import os
import pytest

@pytest.mark.parametrize("number", range(int(os.environ["TESTS"])))
def test_nothing(number):
    pass
"""
_JAVA = """
import io.github.mocketmq.MocketMq;
import io.github.mocketmq.junit5.MocketMqTest;
import java.time.Duration;
import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

@MocketMqTest
class NAME {
    @ParameterizedTest
    @MethodSource("numbers")
    void anOrderIsCancelled(int number, MocketMq mq) {
        mq.send("orders", "order 7", it -> it.key("7").delayLevel(16));
        mq.advance(Duration.ofMinutes(30));
        mq.expect("orders").count(1).delivered();
    }

    static IntStream numbers() {
        return IntStream.range(0, Integer.getInteger("tests"));
    }
}
"""
_JAVA_FLOOR = """
import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class NAME {
    @ParameterizedTest
    @MethodSource("numbers")
    void nothing(int number) {
    }

    static IntStream numbers() {
        return IntStream.range(0, Integer.getInteger("tests"));
    }
}
"""
_GO = """
package shop

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/mocketmq/mocketmq/kits/go/mocketmqtest"
)

func TestOrder(t *testing.T) {
	each(t, func(t *testing.T) {
		mq := mocketmqtest.Start(t)
		mq.Send("orders", "order 7", mocketmqtest.With{Keys: []string{"7"}, DelayLevel: 16})
		mq.Advance(30 * time.Minute)
		mq.Expect("orders", mocketmqtest.Delivered, 1)
	})
}

func TestNothing(t *testing.T) {
	each(t, func(t *testing.T) {})
}

func each(t *testing.T, test func(t *testing.T)) {
	count, _ := strconv.Atoi(os.Getenv("TESTS"))
	for number := 0; number < count; number++ {
		t.Run(strconv.Itoa(number), test)
	}
}
"""
_NODE = """
const { afterEach, beforeEach, test } = require('node:test');
const { useMocketmq } = require('mocketmq');

const mq = useMocketmq({ beforeEach, afterEach });
for (let number = 0; number < process.env.TESTS; number++) {
  test(`order ${number}`, async () => {
    await mq.send('orders', 'order 7', { keys: ['7'], delayLevel: 16 });
    await mq.advance('30m');
    await mq.expect('orders', 'delivered', { count: 1 });
  });
}
"""
_NODE_FLOOR = """
const { test } = require('node:test');

for (let number = 0; number < process.env.TESTS; number++) {
  test(`nothing ${number}`, async () => {});
}
"""


class Kit(NamedTuple):
    """A kit's project: each function runs this many tests, and returns how many seconds the run took."""

    name: str
    tests: Callable[[int], float]
    floor: Callable[[int], float]


async def measure(quick: bool) -> list[Figure]:
    """Measure each kit by turns with its floor, and eight concurrent JVMs."""
    count, figures = 1 if quick else 5, []
    with TemporaryDirectory(prefix="mocketmq-bench-") as folder:
        for kit in _kits(Path(folder)):
            kit.tests(TESTS)  # compiles what is new, and warms the disk cache
            taken, floors = [], []
            for _ in rounds(kit.name, count):
                floors.append(_ms_of_a_test(kit.floor))
                taken.append(_ms_of_a_test(kit.tests))
            figures.append(Figure(f"{kit.name}: one of {TESTS} tests", "ms", taken, floors))
        forks = _forks(Path(folder) / "java")
        taken, floors = [], []
        for _ in rounds(forks.name, count):
            floors.append(forks.floor(TESTS // FORKS))
            taken.append(forks.tests(TESTS // FORKS))
        figures.append(Figure(f"{forks.name}, {TESTS // FORKS} tests each: the run", "s", taken, floors))
    return figures


def _ms_of_a_test(tests: Callable[[int], float]) -> float:
    one = tests(1)
    return (tests(TESTS) - one) * 1000 / (TESTS - 1)


def _kits(folder: Path) -> Iterator[Kit]:
    for name, prepare in (("Python", _python), ("Java", _java), ("Go", _go), ("Node", _node)):
        project = folder / name.lower()
        project.mkdir()
        yield prepare(project)


def _python(project: Path) -> Kit:
    (project / "test_orders.py").write_text(_PYTHON)
    (project / "test_nothing.py").write_text(_PYTHON_FLOOR)
    pytest = (sys.executable, "-m", "pytest", "-q", "-p", "mocketmq.testing.plugin", "-p", "no:cacheprovider")

    def tests(file: str) -> Callable[[int], float]:
        return lambda count: _seconds(*pytest, file, cwd=project, count=count)

    return Kit("Python, pytest", tests("test_orders.py"), tests("test_nothing.py"))


def _java(project: Path) -> Kit:
    install_java_kit()
    shutil.copy(PROJECTS / "kit" / "pom.xml", project)
    sources = project / "src" / "test" / "java"
    sources.mkdir(parents=True)
    for number in range(1, FORKS + 1):
        for name, source in ((f"Orders{number}Test", _JAVA), (f"Nothing{number}Test", _JAVA_FLOOR)):
            (sources / f"{name}.java").write_text(source.replace("NAME", name))
    run("mvn", "--batch-mode", "test", "-Dtest=Nothing1Test", "-DargLine=-Dtests=1", cwd=project)

    def tests(name: str) -> Callable[[int], float]:
        return lambda count: _elapsed(_maven(project, name, count), name)

    return Kit("Java, JUnit 5", tests("Orders1Test"), tests("Nothing1Test"))


def _forks(project: Path) -> Kit:
    def run_of(name: str) -> Callable[[int], float]:
        forks = f"-DforkCount={FORKS}"

        def seconds(count: int) -> float:
            started = perf_counter()
            _maven(project, name, count, forks)
            return perf_counter() - started

        return seconds

    return Kit(f"Java, {FORKS} JVMs of Surefire at once", run_of("Orders*Test"), run_of("Nothing*Test"))


def _maven(project: Path, name: str, count: int, *options: str) -> str:
    named = (f"-Dtest={name}", f"-DargLine=-Dtests={count}")
    return run("mvn", "--batch-mode", "--offline", "surefire:test", *named, *options, cwd=project)


def _elapsed(output: str, name: str) -> float:
    """Return the time of a class by Surefire, since Maven's start takes longer than the tests."""
    found = re.search(rf"Time elapsed: ([\d.]+) s -- in {name}", output)
    assert found, output
    return float(found[1])


def _go(project: Path) -> Kit:
    (project / "go.mod").write_text(MODULE)
    (project / "shop_test.go").write_text(_GO)
    run("go", "test", "-c", "-o", "shop.test", ".", cwd=project)

    def tests(name: str) -> Callable[[int], float]:
        return lambda count: _seconds("./shop.test", "-test.run", f"^{name}$", cwd=project, count=count)

    return Kit("Go, testing", tests("TestOrder"), tests("TestNothing"))


def _node(project: Path) -> Kit:
    modules = project / "node_modules"
    modules.mkdir()
    (modules / "mocketmq").symlink_to(KITS / "node")
    (project / "orders.test.js").write_text(_NODE)
    (project / "nothing.test.js").write_text(_NODE_FLOOR)

    def tests(file: str) -> Callable[[int], float]:
        return lambda count: _seconds("node", "--test", file, cwd=project, count=count)

    return Kit("Node, node:test", tests("orders.test.js"), tests("nothing.test.js"))


def _seconds(*command: str, cwd: Path, count: int) -> float:
    started = perf_counter()
    run(*command, cwd=cwd, TESTS=str(count), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    return perf_counter() - started
