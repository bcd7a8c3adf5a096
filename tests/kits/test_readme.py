"""The README's first lines in each language, run with the built artefacts."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mocketmq import __version__
from tests.kits.running import run
from tests.kits.test_go_kit import MODULE
from tests.kits.test_java_kit import copied, installed, maven, path_without_mocketmq
from tests.support.readme import examples

KITS = Path(__file__).parents[2] / "kits"

JAVA = """
import io.github.mocketmq.MocketMq;
import java.time.Duration;
import org.junit.jupiter.api.Test;

class OrderTest {{
    @Test
    void theReadme() {{
        {example}
        mq.expect("orders").count(1).delivered();
    }}
}}
"""
GO = """
package shop

import (
	"testing"
	"time"

	"github.com/mocketmq/mocketmq/kits/go/mocketmqtest"
)

func TestTheReadme(t *testing.T) {{
	{example}
	mq.Expect("orders", mocketmqtest.Delivered, 1)
}}
"""
NODE = """
const {{ start, stop }} = require('mocketmq');
(async () => {{
  {example}
  await mq.expect('orders', 'delivered', {{ count: 1 }});
  await stop();
  console.log('delivered');
}})();
"""

pytestmark = pytest.mark.interop
__all__ = ["installed"]  # the fixture with the Java artefacts, which contain the bundle


def example(kind: str) -> str:
    """Return the block, which has three lines."""
    [text] = examples(kind)
    assert len(text.splitlines()) == 3
    return text


@pytest.mark.skipif(shutil.which("mvn") is None, reason="needs Maven")
@pytest.mark.usefixtures("installed")
def test_java(tmp_path: Path) -> None:
    project = copied("stranger", tmp_path)
    [test] = project.glob("src/test/java/*.java")
    test.write_text(JAVA.format(example=example("kit-java")))
    assert "Tests run: 1, Failures: 0, Errors: 0" in maven(project, path=path_without_mocketmq())


@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
def test_go(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text(MODULE)
    (tmp_path / "shop_test.go").write_text(GO.format(example=example("kit-go")))
    assert "--- PASS: TestTheReadme" in run("go", "test", "-v", "./...", cwd=tmp_path)


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs Node and npm")
def test_node(tmp_path: Path) -> None:
    run("npm", "pack", "--silent", "--pack-destination", str(tmp_path), cwd=KITS / "node")
    package = tmp_path / f"mocketmq-{__version__}.tgz"
    run("npm", "install", "--no-audit", "--no-fund", "--offline", str(package), cwd=tmp_path)
    (tmp_path / "orders.js").write_text(NODE.format(example=example("kit-node")))
    assert run("node", "orders.js", cwd=tmp_path) == "delivered\n"


def test_python(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(
        f"{example('kit-python')}    mocketmq.assert_delivered('orders', count=1)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_orders.py"],
        check=False,
        cwd=tmp_path,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout
