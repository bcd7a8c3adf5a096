"""``python -m tests.bench [names…] [--quick | --save] [--json FILE]``.

The exit code is 0 whatever the figures are, and 1 only if a benchmark broke. Each benchmark runs in its own
process, so that it does not inherit another's memory.
"""

import argparse
import json
import os
import platform
import sys
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console

from tests.bench.benches import BENCHES, named, run
from tests.bench.figures import Figure, table_of
from tests.bench.saved import save


def main() -> int:
    """Run the chosen benchmarks, and print their figures."""
    options = _options()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # users have compiled modules
    console = Console(width=None if sys.stdout.isatty() else 140)
    results: dict[str, list[Figure]] = {}
    for name in options.names or BENCHES:
        try:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                results[name] = process.submit(run, name, options.quick).result()
        except Exception:  # noqa: BLE001 - a broken benchmark does not end the others
            traceback.print_exc()
            continue
        console.print(table_of(BENCHES[name].title, results[name]))
    console.print(_verdict(results))
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    console.print(f"{os.cpu_count()} cores, load {load}, Python {platform.python_version()}")
    if options.json:
        _save(options.json, results)
    if options.save:
        save(results)
    return 0 if set(results) == set(options.names or BENCHES) else 1


def _verdict(results: Mapping[str, Sequence[Figure]]) -> str:
    """Return the number of aims met, and each missed aim."""
    judged = [figure for figures in results.values() for figure in figures if figure.aim]
    missed = [f"  {figure}, aim {figure.aim}" for figure in judged if not figure.is_met]
    return "\n".join(
        [f"{len(judged) - len(missed)} of {len(judged)} aims met; missed: {len(missed)}", *missed]
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure the emulator.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones: {', '.join(BENCHES)}")
    parser.add_argument("--quick", action="store_true", help="a few seconds each; the figures mean little")
    parser.add_argument("--save", action="store_true", help="save the figures that documents quote")
    parser.add_argument("--json", type=Path, metavar="FILE", help="save all runs for scripts")
    options = parser.parse_args()
    if options.quick and options.save:
        parser.error("--save is for whole measurements; --quick makes none")
    if unknown := [name for name in options.names if not named(name)]:
        parser.error(f"no such benchmark: {', '.join(unknown)}")
    options.names = [each for name in options.names for each in named(name)]
    return options


def _save(path: Path, results: Mapping[str, Sequence[Figure]]) -> None:
    saved = {
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        "figures": {name: [figure.as_json() for figure in figures] for name, figures in results.items()},
    }
    path.write_text(json.dumps(saved, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
