"""``mocketmq schema``."""

import json
import sys

import click

from mocketmq.cli.options import examples


@click.command(epilog=examples("schema"))
def schema() -> None:
    """Print the JSON schema of the settings file, with which editors complete and check it.

    docs/settings.md says how to use it in an editor.
    """
    from mocketmq.settings_schema import settings_schema  # noqa: PLC0415 - imports half of the broker

    sys.stdout.write(json.dumps(settings_schema(), indent=2, ensure_ascii=False) + "\n")
