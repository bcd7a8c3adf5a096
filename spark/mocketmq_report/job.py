"""The job of a report: measures the data, makes the tables, and decides whether the report passes."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from mocketmq import __version__
from mocketmq.clock import wall_us
from mocketmq.delay_limits import DelayLimits
from mocketmq.errors import RefusedError
from mocketmq_report.carrier import SparkCarrier
from mocketmq_report.compute import rollup
from mocketmq_report.compute.one_pass import measure
from mocketmq_report.compute.tables import CUTOFFS_US, ReportTables, TablePlan, tables
from mocketmq_report.document import DelayLimitsFindings, Header, Quality, Report
from mocketmq_report.judge.compare import FailRule, compare, load_report
from mocketmq_report.judge.thresholds import Threshold, judge, required_figures
from mocketmq_report.ledger import quality, sources
from mocketmq_report.ledger.columns import UNKNOWN
from mocketmq_report.ledger.places import Places
from mocketmq_report.ledger.table_files import TableFiles
from mocketmq_report.ledger.work import Carrier, carry_here
from mocketmq_report.on_time import DEFAULT_ON_TIME_US
from mocketmq_report.progress import ProgressCallback

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_ROLLED_UP: Final = "made from rollups, which do not record how many rows were dropped"


class Job(NamedTuple):
    """The data and options of a report. Paths may be URLs."""

    data: Sequence[str]
    out: str = "mocketmq-report"
    title: str | None = None
    thresholds: Sequence[Threshold] = ()
    baselines: Sequence[str] = ()  # other data, or report.json files of earlier reports
    rules: Sequence[FailRule] = ()
    on_time_us: int = DEFAULT_ON_TIME_US  # see ``on_time.py``
    exact: bool | None = None  # whether percentiles are exact; None to decide by the number of rows
    as_of_us: int | None = None
    max_dropped: float = quality.MAX_DROPPED
    rollup: str | None = None  # where to write a rollup
    delay_limits: DelayLimits | None = None  # another system's limits, for judging the delays


class _Measured(NamedTuple):
    tables: ReportTables
    quality: Quality
    warnings: list[str]
    delay_limits: DelayLimitsFindings | None = None


class StartingSpark(Protocol):
    """Spark, which is starting or has started."""

    def context(self) -> "SparkContext":
        """Spark's context, which distributes work to executors."""

    def __call__(self) -> "SparkSession":
        """Spark's session, which reads and writes tables, and starts a second after the context."""


class ReportRunner(NamedTuple):
    """Runs a report, with Spark or in this process."""

    spark: StartingSpark | None

    @property
    def carry(self) -> Carrier:
        """The carrier that runs the kernel on the data."""
        return SparkCarrier(self.spark.context) if self.spark else carry_here

    @property
    def version(self) -> str:
        """The version of Spark, or ``none``."""
        return self.spark.context().version if self.spark else "none"


def run(runner: ReportRunner, job: Job, progress: ProgressCallback) -> Report:
    """Make the report of the job's data, and judge it.

    Raises BrokenLedgerError if no source is readable, RefusedError if too many rows are unusable, and
    ReportUnreadableError if a baseline is not a report.
    """
    report = _report(runner, job, progress)
    report.judgements = [judge(each, report) for each in job.thresholds]
    if job.baselines:
        others = [_baseline(runner, each, job, progress) for each in job.baselines]
        report.comparison = compare(report, others, job.rules)
    judged = [*report.judgements, *(report.comparison.judgements if report.comparison else ())]
    report.passed = all(each.passed for each in judged)
    return report


def _baseline(runner: ReportRunner, data: str, job: Job, progress: ProgressCallback) -> Report:
    if data.endswith(".json") and "://" not in data:
        return load_report(Path(data))
    return _report(runner, job._replace(data=[data], title=None, rollup=None, delay_limits=None), progress)


def _report(runner: ReportRunner, job: Job, progress: ProgressCallback) -> Report:
    """Make a report without judging it."""
    found = _measure(runner, job, progress)
    made = found.tables
    return Report(
        header=Header(
            title=job.title or ", ".join(PurePosixPath(each).name or each for each in job.data),
            version=__version__,
            spark=runner.version,
            created_wall_us=wall_us(),
            is_performance=all(run.clock in ("real", UNKNOWN) and not run.moves for run in made.runs),
            method=made.method,
            error=made.error,
            on_time_us=job.on_time_us,
            cutoffs_us=made.cutoffs_us,
            runs=made.runs,
            warnings=[*found.warnings, *made.warnings],
        ),
        passed=True,
        judgements=[],
        quality=found.quality,
        lateness=made.lateness,
        reconciliation=made.reconciliation,
        stages=made.stages,
        timeline=made.timeline,
        herds=made.herds,
        disorder=made.disorder,
        worst=made.worst,
        causes=made.causes,
        spectra=made.spectra,
        delay_limits=found.delay_limits,
    )


def _measure(runner: ReportRunner, job: Job, progress: ProgressCallback) -> _Measured:
    asked = required_figures([*job.thresholds, *job.rules])
    plan = TablePlan(job.on_time_us)
    plan = plan._replace(
        cutoffs_us=(*plan.cutoffs_us, *asked.cutoffs_us),
        percentiles=(*plan.percentiles, *asked.percentiles),
    )
    progress("reading", 0, None)
    files = TableFiles(runner.spark)
    if rollups := rollup.find_rollups(Places(runner.spark), job.data):
        if job.delay_limits is not None:
            raise RefusedError(
                "--delay-limits needs each delay, and a rollup contains none: give the data itself"
            )
        found = rollup.load(rollups, files, progress)
        progress("making tables", 0, None)
        made = tables(found.measured, found.runs, found.moves, plan)
        rows = sum(each.deliveries for each in made.runs)
        odd = Quality(read=rows, kept=rows, dropped=[], skewed=0, disorder=[], broken=[])
        return _Measured(made, odd, [_ROLLED_UP])
    ledger, broken, warnings = sources.read(job.data, runner.spark, runner.carry, as_of_us=job.as_of_us)
    progress("measuring", 0, None)
    measured = measure(
        ledger,
        runner.carry,
        plan.split_us,
        job.exact,
        None if job.rollup is None else CUTOFFS_US,
        job.on_time_us,
        job.delay_limits,
    )
    odd = quality.quality(measured.summary.faults, measured.summary.odd)
    odd.broken = broken
    quality.check(odd, job.max_dropped)
    if job.rollup is not None:
        rollup.save(measured, ledger.runs, ledger.moves, job.rollup, files, progress)
    progress("making tables", 0, None)
    made = tables(measured, ledger.runs, ledger.moves, plan, ledger.struck)
    return _Measured(made, odd, warnings, measured.delay_limits)
