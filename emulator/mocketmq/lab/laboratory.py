"""Runs the lab, which applies the same load to one subject after the other."""

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

from mocketmq.errors import StoreUnavailableError
from mocketmq.lab.cluster_run import ClusterRun
from mocketmq.lab.load import LEVELS, Load, SchemeName
from mocketmq.lab.measured import Results, Skipped
from mocketmq.lab.scheme_run import measure_scheme
from mocketmq_compat.delay.offline import adding

Progress = Callable[[str, int, int | None], object]
"""Called with the current activity, the number of completed steps, and the total if it is known."""


async def run_lab(
    schemes: Sequence[SchemeName], load: Load, place: Path, progress: Progress, cluster: ClusterRun | None
) -> Results:
    """Measure each scheme, and the cluster if there is one. Ledgers are written below ``place``.

    A scheme whose extra is not installed is skipped. Raises EmulatorError.
    """
    name = await cluster.check() if cluster else ""  # must fail before minutes are spent on the schemes
    missing = {scheme: reason for scheme in schemes if (reason := _missing(scheme, place))}
    results = Results([], [Skipped(scheme, reason) for scheme, reason in missing.items()])
    left = [scheme for scheme in schemes if scheme not in missing]
    total = len(left) * (3 + len(load.pending))
    steps = count()
    for scheme in left:

        def tell(what: str, scheme: SchemeName = scheme) -> None:
            progress(f"{scheme}: {what}", next(steps), total)

        results.measured.append(await measure_scheme(scheme, load, place / scheme, tell))
    if cluster:

        def tell_of(what: str, done: int, of: int) -> None:
            progress(f"{name}: {what}", done, of)

        results.measured.append(await cluster.measure(name, place / "rocketmq", tell_of))
    return results


def _missing(scheme: SchemeName, place: Path) -> str | None:
    """Return the reason why the scheme cannot be used here, or None if it can."""
    if scheme == LEVELS:
        return None
    try:
        with adding(scheme, place / scheme / "tried", lambda *_: None):
            return None
    except StoreUnavailableError as error:
        return str(error)
