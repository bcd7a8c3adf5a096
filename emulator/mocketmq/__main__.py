"""``python -m mocketmq`` is ``mocketmq``."""

from mocketmq.cli import main

main()
