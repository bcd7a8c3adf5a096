"""Makes the JSON schema of ``lab.json``: ``python -m mocketmq_report.lab.schema > docs/lab.schema.json``."""

import sys
from typing import Final

from mocketmq_report.lab import document
from mocketmq_report.schema import PublishedDocument, text

LAB: Final = PublishedDocument("Lab report of mocketmq", document, document.LabReport)

if __name__ == "__main__":
    sys.stdout.write(text(LAB))
