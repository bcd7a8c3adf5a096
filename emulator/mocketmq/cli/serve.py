"""``mocketmq serve``, which runs a broker until Ctrl-C or SIGTERM. Its options come from ``settings``."""

import asyncio
import gc
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from mocketmq import __version__
from mocketmq.app import Emulator, running_emulator
from mocketmq.broker.packs.pack_file import Pack
from mocketmq.cli.completion import complete_words
from mocketmq.cli.exit_codes import Exit, Failure
from mocketmq.cli.long_running import at_stop_signals, log_to_stderr
from mocketmq.cli.options import examples
from mocketmq.clock import US_PER_S, process_age_us
from mocketmq.errors import SettingError
from mocketmq.hosts import is_in_container, is_loopback
from mocketmq.settings import Settings
from mocketmq.settings_file import SettingsFile
from mocketmq.settings_sources import flag_of, load_settings, options, variable_of
from mocketmq.store.database import MEMORY
from mocketmq.watchdog import Watchdog

log = logging.getLogger(__name__)

_FILES = 65_536


def _with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for every setting. All options take text, which the settings check."""
    for option in reversed(options()):
        flag = f"{option.flag}/--no-{option.flag.removeprefix('--')}" if option.is_bool else option.flag
        default = f"  [default: {option.default}]" if option.default else ""
        command = click.option(
            flag,
            option.name,
            default=None,
            metavar=None if option.is_bool else "TEXT",
            help=f"{option.help}{default}",
            shell_complete=complete_words(option.words) if option.words else None,
        )(command)
    return command


@click.command(
    epilog=examples(
        "serve",
        "serve --clock manual --data :memory: --port 0",
        "serve --host 0.0.0.0 --token secret --config broker.toml",
    )
)
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings, topics and groups.")
@click.option(
    "--no-auto-create-topics",
    "auto_create_topics",
    flag_value="false",
    default=None,
    help="The same as --auto-create-topics false.",
)
@click.option(
    "--until-eof",
    is_flag=True,
    help="Also stop when standard input ends, as it does when the process that writes it dies.",
)
@_with_settings
def serve(config: Path | None, until_eof: bool, **flags: Any) -> None:
    """Start a broker and run it until Ctrl-C or SIGTERM.

    Every option can also be given in the environment (--max-wait as MOCKETMQ_MAX_WAIT) and in the TOML file
    (as max_wait).
    """
    # Libraries log only warnings and errors.
    log_to_stderr()
    settings = load_settings(flags, os.environ, config)
    set_log_levels(settings)
    is_guarded = settings.token or settings.acl
    if not is_guarded and not is_loopback(settings.host) and not is_in_container():
        log.warning(
            "anyone who can reach %s can use this broker: set --token, or --host 127.0.0.1", settings.host
        )
    if settings.remoting and settings.token and not (settings.access_keys or settings.acl):
        log.warning(
            "RocketMQ clients need no token at the ports of name server and broker:"
            " set --acl or --access-keys, or --no-remoting to keep them out"
        )
    if not settings.token and settings.acl:
        where = "" if is_in_container() else " from this machine"
        log.warning("the JSON API needs no credentials%s: set --token to require them", where)
    elif not settings.token and settings.access_keys:
        log.warning("the JSON API checks no access keys, only the token: set --token")
    try:
        run_broker(settings, until_eof=until_eof)
    except SettingError as error:
        raise Failure(_as_given(error, flags, settings.file), Exit.USAGE) from error


def run_broker(
    settings: Settings,
    *,
    until_eof: bool,
    pack: Pack | None = None,
    when_ready: Callable[[Emulator], None] | None = None,
) -> None:
    """Run a broker until Ctrl-C or SIGTERM, or the end of standard input if ``until_eof`` is set.

    ``when_ready`` is called after the start line is printed. Raises the errors of ``running_emulator``.
    """
    _favour_short_turns()
    _allow_many_connections()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_run(settings, until_eof, pack, when_ready))


def set_log_levels(settings: Settings) -> None:
    """Set the log level of mocketmq's modules from the setting, and let libraries log only what matters."""
    for room in ("mocketmq", "mocketmq_compat"):
        logging.getLogger(room).setLevel(settings.log_level.upper())
    # aiohttp logs a stack for each request that is not HTTP, although the client gets a response.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)


def _as_given(error: SettingError, flags: Mapping[str, object], file: SettingsFile | None) -> str:
    """Reword a setting's error with the flag or variable that set it, or with its place in the file."""
    if flags.get(error.field) is not None:
        given = flag_of(error.field)
    elif os.environ.get(variable_of(error.field)):
        given = variable_of(error.field)
    elif file is not None and error.field in file.parsed():
        return f"{error}{file.given_by(error.field)}"
    else:
        return str(error)
    return str(error).replace(f"setting {error.field}", given, 1)


async def _run(
    settings: Settings,
    until_eof: bool,
    pack: Pack | None,
    when_ready: Callable[[Emulator], None] | None,
) -> None:
    stop = asyncio.Event()

    def stop_at_signals() -> None:
        # Until this point a signal ends the process at once, which is safe for the store.
        at_stop_signals(lambda _: stop.set())

    async with running_emulator(settings, pack, before_ready=stop_at_signals) as emulator:
        watchdog = Watchdog()
        if until_eof:
            _at_end_of_input(asyncio.get_running_loop(), stop.set)
        click.echo(_start_line(emulator))
        if when_ready is not None:
            when_ready(emulator)
        gc.freeze()  # exclude the long-lived objects of the start from collections
        await _until_stopped_or_broken(stop, emulator)
        log.info("stopping")
    watchdog.close()


def _at_end_of_input(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Call ``call`` in the event loop at the end of standard input, which may be a pipe, file or terminal."""

    def read() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        with suppress(RuntimeError):  # the loop may be closed
            loop.call_soon_threadsafe(call)

    threading.Thread(target=read, daemon=True).start()


async def _until_stopped_or_broken(stop: asyncio.Event, emulator: Emulator) -> None:
    stopping = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait((stopping, *emulator.broker.tasks), return_when=asyncio.FIRST_COMPLETED)
    for task in done - {stopping}:
        log.critical(
            "the %s failed, so the broker exits now; whatever it acknowledged is safe",
            task.get_name(),
            exc_info=task.exception(),
        )
        # Skip the clean shutdown, because it could wait forever for the dead task.
        logging.shutdown()
        os._exit(Exit.DEFECT)


def _favour_short_turns() -> None:
    """Tune the interpreter for short tasks, which allows up to a third more HTTP sends per second.

    The switch interval is the maximum time for which SQLite's thread waits for the interpreter's lock, once
    per row. The garbage collector runs after 2,000 new objects instead of 700. A collection stops the process
    for about 0.5 ms per 1,000 objects, which other clients notice while clients open thousands of streams.
    """
    sys.setswitchinterval(0.0002)
    gc.set_threshold(2_000, 100, 50)


def _allow_many_connections() -> None:
    """Raise the limit on file descriptors, because each connection needs one and many systems allow 1,024."""
    try:
        import resource  # noqa: PLC0415 - not on every platform
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # a system may refuse its own hard limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _start_line(emulator: Emulator) -> str:
    settings = emulator.settings
    data = "in memory" if settings.data == MEMORY else f"in {Path(settings.data).resolve()}"
    remoting = emulator.remoting
    names = (
        f", name server at {remoting.namesrv_address}, broker port {remoting.broker_port}" if remoting else ""
    )
    grpc = f", gRPC at {emulator.grpc_address}" if emulator.grpc_address else ""
    aliyun = f", Aliyun's HTTP protocol at {emulator.aliyun_url}" if emulator.aliyun_url else ""
    return (
        f"mocketmq {__version__} is ready after {process_age_us() / US_PER_S:.2f} s:"
        f" JSON API at {emulator.url}{names}{grpc}{aliyun}, data {data}, clock {settings.clock},"
        f" profile {settings.profile}, levels {settings.levels}"
    )


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's event loop factory, or None where it is not installed."""
    try:
        import uvloop  # noqa: PLC0415 - not on every platform
    except ImportError:
        return None
    return uvloop.new_event_loop
