"""The sample report of other tests is consistent."""

import pytest

from mocketmq_report.document import Report
from tests.support.reports import sample_report, simulated

REPORTS = [
    sample_report(),
    simulated("exact", "exact", False, 4),
    simulated("rocketmq4", "rocketmq4", False, 4),
]


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.header.title)
def test_sample_report_is_consistent(report: Report) -> None:
    total, *groups = report.lateness
    for dimension in ("scheme", "profile", "topic", "run"):
        of_it = [row for row in groups if row.dimension == dimension]
        for field in ("measured", "overdue", "early", "on_time"):
            assert sum(getattr(row, field) for row in of_it) == getattr(total, field), (dimension, field)
    levels = [row for row in groups if row.dimension == "level"]
    assert [row.name for row in levels if not row.measured] == ["13", "18"]
    by_level = next(row for row in groups if row.name == "levels")
    assert sum(row.measured for row in levels) == by_level.measured
    for row in report.reconciliation:
        assert row.sent == row.delivered + row.pending + row.cancelled + row.expired + row.lost
    assert [row.name for row in report.reconciliation if row.is_silent] == ["16"]
    delivered = total.measured - total.overdue
    assert sum(instant.count for instant in report.timeline.instants) == delivered
    assert sum(cell.count for cell in report.timeline.cells) == delivered
    assert sum(herd.deliveries for herd in report.herds) == delivered
    assert report.worst[0].lateness_us == total.max_us
    assert report.spectra[0].points[-1].value_us == total.max_us
    for stage in (stage for stage in report.stages if stage.stage == "total"):
        parts = [one for one in report.stages if (one.dimension, one.name) == (stage.dimension, stage.name)]
        assert sum(part.complete_sum_us for part in parts) == 2 * stage.complete_sum_us
