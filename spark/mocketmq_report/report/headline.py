"""The sentences at the top of every form of a report: the verdict, the measured runs, and the method."""

from collections.abc import Iterable

from mocketmq_report import figures
from mocketmq_report.document import Header, Judgement, Report


def judged(report: Report) -> list[Judgement]:
    """Return all judgements of thresholds and of fail-if rules."""
    return [*report.judgements, *(report.comparison.judgements if report.comparison else ())]


def verdict(report: Report) -> str:
    """Make the verdict, such as ``failed 2 of 9 thresholds and 1 of 3 rules``."""
    rules = report.comparison.judgements if report.comparison else []
    failed, judged = [], []
    for judgements, one, many in ((report.judgements, "threshold", "thresholds"), (rules, "rule", "rules")):
        of_all = _number(len(judgements), one, many)
        wrong = sum(not judgement.passed for judgement in judgements)
        if judgements:
            judged.append(of_all)
        if wrong:
            failed.append(f"{wrong} of {of_all}")
    if failed or not report.passed:
        return " ".join(filter(None, ("failed", figures.listed(failed))))
    return f"passed {figures.listed(judged)}" if judged else "not judged: there are no thresholds"


def measured(header: Header) -> str:
    """Describe what was measured, where, and under which clock."""
    runs = header.runs
    said = [
        f"broker {_each(run.version for run in runs)} on {_each(run.host for run in runs)}",
        f"profile {_each(run.profile for run in runs)}",
        f"clock {_each(run.clock for run in runs)}{_moved(sum(run.moves for run in runs))}",
        f"durability {_each(run.durability for run in runs)}",
        f"{_number(sum(run.deliveries for run in runs), 'delivery', 'deliveries')}"
        f" in {_number(len(runs), 'run', 'runs')}",
    ]
    if header.load:
        said[-1] += f" at {figures.rate(header.load)}"
    return ", ".join(said)


def computed(header: Header) -> str:
    """Describe how the figures were computed."""
    how = "exact" if header.method == "exact" else f"from bins, within {figures.share(header.error)}"
    engine = "without Spark" if header.spark == "none" else f"Spark {header.spark}"
    return (
        f"on time: up to {figures.duration(header.on_time_us)} late; percentiles are {how};"
        f" made {figures.instant(header.created_wall_us)} by mocketmq {header.version}, {engine}"
    )


def _moved(times: int) -> str:
    return f" and moved {'once' if times == 1 else f'{times} times'}" if times else ""


def _number(count: int, one: str, many: str) -> str:
    return f"{figures.count(count)} {one if count == 1 else many}"


def _each(names: Iterable[str]) -> str:
    """List the distinct names in order. Escapes them, because users may choose them."""
    return figures.harmless(figures.listed(dict.fromkeys(names))) or "unknown"
