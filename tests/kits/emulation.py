"""Programs for arm64, which Linux starts by QEMU's emulator while they are needed."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

_NAME: Final = "mocketmq-tests-arm64"
_HEADER: Final = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
"""How executables for arm64 begin. The mask leaves out the ABI, and that it may be loaded anywhere."""
_MASK: Final = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"

# The kernel forgets a rule when nothing has its file system mounted any more. With the flag F, it opens the
# emulator at once, so that programs in other roots are emulated, too.
_REGISTER: Final = """
set -e
mount -t binfmt_misc binfmt_misc "$1"
cd "$1"
printf %s ":$2:M::$3:$4:$5:OCF" >register
echo ready
read -r _ || echo -1 >"$2"
"""


@contextmanager
def emulated_arm64(emulator: Path, mounted: Path) -> Iterator[None]:
    """Let the kernel start programs for arm64, or skip the test where it cannot."""
    mounted.mkdir(parents=True, exist_ok=True)
    alone = ("unshare", "--mount", "sh", "-c", _REGISTER, "sh", mounted, _NAME, _HEADER, _MASK, emulator)
    with subprocess.Popen(
        alone, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as holder:
        assert holder.stdin and holder.stdout and holder.stderr
        if holder.stdout.readline() != "ready\n":
            pytest.skip(f"arm64 needs an emulator, which the kernel refuses: {holder.stderr.read().strip()}")
        try:
            yield
        finally:
            holder.stdin.close()
