"""``python -m emulator`` is ``mocketmq``."""

from emulator.cli import main

main()
