"""``python -m spark`` and ``spark-submit spark/__main__.py``: the same as ``mocketmq report``."""

import sys
from pathlib import Path

# By its path, as spark-submit runs it, modules of this folder would pass for others: html is also Python's.
if __package__ in (None, ""):
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from spark.command import report

if __name__ == "__main__":
    report(prog_name="mocketmq report")
