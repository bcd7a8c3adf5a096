"""Fuzz by hand, and print what was sent and found: ``python -m tests.hostile.fuzz --minutes 60 --seed 7``."""

import argparse
import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from mocketmq.clock import US_PER_S, steady_us
from tests.hostile.fuzz.fuzzer import Fuzzed, fuzz
from tests.support.process import broker_process

_ROUND_S: Final = 60.0
"""Length of a round in seconds; each round has its own broker and seed."""


async def _rounds(minutes: float, seed: int, kept: Path) -> bool:
    ends_us = steady_us() + int(minutes * 60 * US_PER_S)
    is_clean = True
    while (left_us := ends_us - steady_us()) > 0:
        with TemporaryDirectory(prefix="mocketmq-fuzz-") as directory:
            async with broker_process("--data", directory) as broker:
                seconds = min(_ROUND_S, left_us / US_PER_S)
                fuzzed = await fuzz(broker, seed, cases=sys.maxsize, seconds=seconds, kept=kept)
        _show(fuzzed)
        is_clean = is_clean and not fuzzed.findings
        seed += 1
    return is_clean


def _show(fuzzed: Fuzzed) -> None:
    counts = ", ".join(f"{door} {fuzzed.answered[door]}/{sent}" for door, sent in fuzzed.cases.items())
    line = (
        f"seed {fuzzed.seed}: answered/sent {counts}; an honest client waited up to"
        f" {fuzzed.slowest_ms:.0f} ms, memory up to {fuzzed.peak_bytes / 1e6:.0f} MB;"
        f" found {len(fuzzed.findings)}"
    )
    click.echo("\n  ".join([line, *fuzzed.findings]))


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--kept", type=Path, default=Path("build/fuzz"), help="folder for cases with findings"
    )
    given = parser.parse_args()
    sys.exit(0 if asyncio.run(_rounds(given.minutes, given.seed, given.kept)) else 1)


if __name__ == "__main__":
    main()
