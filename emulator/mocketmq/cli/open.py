"""``mocketmq open``."""

import webbrowser
from pathlib import Path

import click

from mocketmq.app import Emulator
from mocketmq.broker.packs.pack_file import Pack, PackError, read_pack
from mocketmq.broker.packs.packed_settings import opened_settings
from mocketmq.cli.exit_codes import Exit, Failure
from mocketmq.cli.long_running import log_to_stderr
from mocketmq.cli.options import examples
from mocketmq.cli.output import show
from mocketmq.cli.serve import run_broker, set_log_levels
from mocketmq.instant import format_instant

_STORY = "/#/story"


@click.command(epilog=examples("open failed.mocketmq", "open failed.mocketmq --browser"))
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--http-port",
    type=click.IntRange(0, 65_535),
    default=0,
    show_default="a free one",
    help="Port of the console and the JSON API.",
)
@click.option("--browser", is_flag=True, help="Open the console in a browser.")
@click.option("--until-eof", is_flag=True, help="Also stop at the end of standard input.")
def open(file: Path, http_port: int, browser: bool, until_eof: bool) -> None:  # noqa: A001 - the command
    """Start a broker with the state in the pack FILE, and its clock stopped at that moment.

    The console shows the events of the failed test, and can move the clock step by step. The broker keeps
    everything in memory, so FILE does not change. It listens on free ports, to which clients may connect.
    """
    try:
        pack = read_pack(file)
        settings = opened_settings(pack.settings, pack.name, http_port)
        log_to_stderr()
        set_log_levels(settings)
        run_broker(settings, until_eof=until_eof, pack=pack, when_ready=lambda it: _tell(pack, it, browser))
    except OSError as error:
        raise Failure(
            f"FILE is {str(file)!r}; allowed: a readable pack ({error.strerror})", Exit.USAGE
        ) from None
    except PackError as error:
        raise Failure(str(error), Exit.DAMAGED) from None


def _tell(pack: Pack, emulator: Emulator, browser: bool) -> None:
    """Print what failed, and the console's address."""
    console = f"{emulator.url}{_STORY}"
    found = [f"{pack.manifest.test} failed"] if pack.manifest.test else []
    clock = f"the clock is at {format_instant(pack.manifest.now_us)}"
    show(*found, clock, f"console: {console}")
    if browser:
        webbrowser.open(console)
