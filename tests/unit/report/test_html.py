"""The page of a report, parsed as a browser would parse it."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from mocketmq_report import document as d
from mocketmq_report import figures
from mocketmq_report.report.html import MOST_ROWS, html
from tests.support.reports import sample_comparison, sample_report
from tests.unit.report.pages import Page, page, read


def test_all_levels_are_listed_with_their_figures() -> None:
    report = sample_report()
    header, total, *levels, by_time = read().rows["levels"]
    assert [row[0] for row in levels] == [str(level) for level in range(1, 18) if level != 13]
    assert by_time[:3] == ["start-deliver time", "–", "247"]
    assert header[:6] == ["level", "delay", "measured", "on time", "early", "overdue"]
    assert header[6:] == ["min", "mean", "p50", "p90", "p99", "p99.9", "max"]
    row = next(row for row in report.lateness if row.dimension == "level" and row.name == "3")
    assert levels[2] == [
        *("3", "10s", figures.count(row.measured), figures.share(row.on_time_share), "0", "0"),
        *(figures.duration(value) for value in (row.min_us, row.mean_us)),
        *(figures.duration(row.percentiles[name]) for name in ("p50", "p90", "p99", "p99.9")),
        figures.duration(row.max_us),
    ]
    assert total[2] == figures.count(report.lateness[0].measured)
    assert "2 without deliveries" in read().words["levels"]
    assert "level 13 (9m), level 18 (2h)" in read().words["levels"]
    assert "“–” means no deliveries, or too few" in read().words["levels"]


def test_percentile_of_some_groups_has_a_column() -> None:
    lateness = list(sample_report().lateness)
    lateness[3] = replace(lateness[3], percentiles=lateness[3].percentiles | {"p99.99": 7_000, "p9.5": 3})
    found = page(lateness=lateness)
    assert found.rows["levels"][0][8:] == ["p9.5", "p50", "p90", "p99", "p99.9", "p99.99", "max"]
    assert found.rows["levels"][4][13] == "7ms"
    assert found.rows["levels"][5][13] == "–"


def test_other_groups_have_tables_of_their_own() -> None:
    firsts = [row[0] for row in read().rows["groups"]]
    assert firsts == [
        *("scheme", "all levels", "start-deliver time"),
        *("profile", "exact"),
        *("topic", "orders", "payments"),
        *("run", *(run.run for run in sample_report().header.runs)),
    ]


def test_long_tables_are_folded() -> None:
    topic = next(row for row in sample_report().lateness if row.dimension == "topic")
    lateness = [
        sample_report().lateness[0],
        *(replace(topic, name=f"t{n}") for n in range(MOST_ROWS + 1_000)),
    ]
    found = page(lateness=lateness)
    assert [row[0] for row in found.rows["groups"] if row[0] != "topic"] == [row.name for row in lateness[1:]]
    assert "1,000 more" in found.words["groups"]
    assert "more" not in page(lateness=lateness[: MOST_ROWS + 1]).words["groups"]


@pytest.mark.parametrize(
    ("changes", "sentence", "kind"),
    [
        ({}, "✕ Failed 5 of 9 thresholds", "bad"),
        ({"judgements": [], "passed": True}, "Not judged: there are no thresholds", ""),
        (
            {
                "judgements": [d.Judgement(text="early == 0", passed=True, actual="0", reason="")],
                "passed": True,
            },
            "✓ Passed 1 threshold",
            "good",
        ),
    ],
)
def test_the_verdict_is_on_top(changes: dict[str, Any], sentence: str, kind: str) -> None:
    found = page(**changes)
    assert sentence in found.words[""]
    verdict = next(a for _, a in found.elements if (a.get("class") or "").startswith("verdict"))
    assert (verdict["class"] or "").split() == ["verdict", *filter(None, [kind])]


def test_thresholds_are_listed_with_value_and_reason() -> None:
    found = read().rows["thresholds"]
    assert found[0] == ["verdict", "threshold", "is", "why"]
    for row, judgement in zip(found[1:], sample_report().judgements, strict=True):
        shown = "✓ passed" if judgement.passed else "✕ failed"
        assert row == [shown, judgement.text, judgement.actual, judgement.reason]
    assert "thresholds" not in page(judgements=[]).rows


def test_moved_clock_is_marked_as_no_performance() -> None:
    report = sample_report()
    assert "Moved clock: not a performance measurement." in page().words[""]
    header = replace(report.header, is_performance=True, warnings=[])
    assert "Moved clock" not in page(header=header).words[""]
    comparison = replace(sample_comparison(), is_performance=False)
    assert "Not a comparison of performance." in page(comparison=comparison).words["comparison"]
    assert "Not a comparison of performance." not in read().words["comparison"]


def test_header_names_subject_place_and_method() -> None:
    words = " ".join(read().words[""].split())
    for said in (
        "measured2,550 delayed deliveries in 3 runs",
        "time2026-11-20T22:00:00.000Z to 2026-11-21T00:00:00.000Z",
        "sourcenightly/exact",
        "clockreal",
        "profileexact",
        "broker0.4.0",
        "hostrunner-7",
        "durabilityfull",
        "levels1s 5s 10s",
        "clock moved1 time",
        "on timenot early, and at most 100ms late",
        "percentilesexact",
        sample_report().header.warnings[0],
    ):
        assert said in words
    assert "Percentiles are exact" in read().words["levels"]


def test_percentiles_from_bins_show_their_error() -> None:
    found = page(header=replace(sample_report().header, method="bins", error=0.001))
    assert "from bins, ±0.1%" in found.words[""]
    assert "from bins, and at most 0.1% from the exact value" in found.words["levels"]


def test_runs_differ_in_the_columns_that_they_have() -> None:
    header = sample_report().header
    assert page().rows["runs"][0][:2] == ["run", "clock moves"]
    runs = [replace(header.runs[0], host="a"), replace(header.runs[1], host="b", moves=2), header.runs[2]]
    found = page(header=replace(header, runs=runs))
    assert found.rows["runs"][0][:3] == ["run", "host", "clock moves"]
    assert [row[1] for row in found.rows["runs"][1:]] == ["a", "b", "runner-7"]
    assert "a, b and runner-7" in found.words[""]
    assert "clock moved3 times" in found.words[""]


def test_an_unknown_run_is_shown() -> None:
    header = sample_report().header
    run = replace(header.runs[0], started_wall_us=None, as_of_us=None, per_second=None, moves=0)
    found = page(header=replace(header, runs=[run]))
    assert found.rows["runs"][1] == [run.run, "0", "–", "–", figures.count(run.deliveries), "–"]
    assert "in 1 run" in found.words[""]
    assert "clock moved" not in found.words[""]


def test_first_screen_names_failures_and_losses() -> None:
    words = " ".join(read().words[""].split())
    failed = [each for each in sample_report().judgements if not each.passed]
    assert len(failed) == 5
    for each in failed:
        assert f"{each.text} is {each.actual}" in words
    assert "1 message was lost." in words
    many = page(judgements=[replace(failed[0], text=f"early == {n}") for n in range(7)])
    assert "and 2 more" in many.words[""]
    kept = [replace(row, lost=0) for row in sample_report().reconciliation]
    assert "lost" not in page(reconciliation=kept, judgements=[]).words[""]


def test_moved_clock_omits_tables_of_zeros() -> None:
    report = sample_report()
    zero = dict.fromkeys(("min_us", "mean_us", "max_us", "early"), 0)
    lateness = [replace(row, **zero) for row in report.lateness]
    found = Page(html(replace(report, lateness=lateness, causes=[])))
    assert "every message was delivered at its own due time, late by 0." in found.words[""]
    assert found.rows["levels"] == []
    assert not {"groups", "charts"} & found.words.keys()
    assert found.rows["messages"]


def test_groups_of_consumers_have_their_stages() -> None:
    stage = next(each for each in sample_report().stages if each.stage == "pulled-acked")
    found = html(
        sample_report(stages=[*sample_report().stages, replace(stage, dimension="group", name="<shop>")])
    )
    rows = Page(found).rows["consumers"]
    assert rows[1][:3] == ["<shop>", "pulled → acknowledged", figures.count(stage.count)]
    assert 'id="chart-consumers"' in found
    assert "consumers" not in read().words


def test_reconciliation_is_shown() -> None:
    words = " ".join(read().words["messages"].split())
    assert "2,750 sent = 2,545 delivered + 191 pending + 9 cancelled + 4 expired + 1 lost" in words
    assert "level 16 (30m) is silent" in words
    row = next(row for row in sample_report().reconciliation if row.name == "4")
    assert read().row("messages", "level 4 (30s)") == ["level 4 (30s)"] + [
        figures.count(number)
        for number in (
            *(row.sent, row.delivered, row.pending, row.cancelled, row.expired, row.lost),
            *(row.repeats, row.forced, row.overdue),
        )
    ]
    assert "do not add up" not in words


def test_unbalanced_message_counts_are_reported() -> None:
    rows = list(sample_report().reconciliation)
    rows[0] = replace(rows[0], sent=rows[0].sent + 1)
    words = " ".join(page(reconciliation=rows).words["messages"].split())
    assert "2,751 sent ≠ 2,545 delivered" in words
    assert "total: the parts do not add up to the messages sent." in words


def test_levels_out_of_order_are_listed() -> None:
    wrong = [each for each in sample_report().disorder if each.violations]
    timed = d.Disorder(run="a", scheme="directories", level=None, deliveries=9, violations=2)
    named = [*(str(each.level) for each in wrong), "start-deliver time"]
    assert [row[1] for row in page(disorder=[*wrong, timed]).rows["order"][1:]] == named
    kept = [each for each in sample_report().disorder if not each.violations]
    assert "Every level and scheme delivered in the order of due times." in page(disorder=kept).words["order"]
    assert "There are no deliveries whose order could be checked." in page(disorder=[]).words["order"]


def test_the_worst_have_their_ids_and_the_time_of_every_stage() -> None:
    worst = d.Worst(
        run="r1",
        state="delivered",
        message_id="7F0A",
        topic="orders",
        queue_id=2,
        queue_offset=17,
        scheme="levels",
        level=3,
        attempt=2,
        lateness_us=1_500,
        born_us=1_000_000,
        stored_us=1_002_000,
        due_us=11_002_000,
        picked_us=11_003_000,
        delivered_us=11_003_500,
        pulled_us=11_103_500,
        acked_us=None,
    )
    found = page(worst=[worst])
    assert found.rows["worst"][1] == [
        *("1.5ms", "delivered", "3", "1970-01-01T00:00:11.002Z", "2ms", "1ms", "500µs", "100ms", "–"),
    ]
    assert found.rows["worst"][2] == ["7F0A orders · queue 2 · offset 17 · attempt 2 · run r1"]
    assert found.words["worst"].startswith("The 1 latest messages\n")
    bare = replace(worst, queue_id=None, queue_offset=None, attempt=1, level=None, born_us=None)
    found = page(worst=[bare])
    assert found.rows["worst"][1][2:5] == ["–", "1970-01-01T00:00:11.002Z", "–"]
    assert found.rows["worst"][2] == ["7F0A orders · run r1"]
    assert "Nothing was measured." in page(worst=[]).words["worst"]
    timed = page(worst=[replace(worst, scheme="directories", level=None)])
    assert timed.rows["worst"][1][2] == "start-deliver time"


def test_the_data_quality_box_counts_everything() -> None:
    words = " ".join(read().words["data"].split())
    assert "rows read2,754 used2,751 dropped32: due_us is missing1: level is negative" in words
    assert "stages in an impossible order11: pulled before delivered skewed clocks4" in words
    assert read().rows["data"][1] == ["nightly/broken", "mocketmq.db is cut off: its pages end at 4,096"]
    quality = d.Quality(read=5, kept=5, dropped=[], skewed=0, disorder=[], broken=[])
    found = page(quality=quality)
    assert "dropped0" in found.words["data"]
    assert "could not be read" not in found.words["data"]


def test_the_figures_of_a_chart_are_in_a_table() -> None:
    report = sample_report()
    rows = read().rows["charts"]
    step = report.timeline.instants[0]
    shown = [figures.duration(value) for value in (step.p50_us, step.p99_us, step.max_us)]
    assert [figures.instant(step.at_us), figures.count(step.count), *shown] in rows
    assert [figures.instant(step.at_us), figures.count(step.count), figures.count(step.count)] in rows
    stage = next(each for each in report.stages if each.stage == "total")
    assert ["total", "the whole", figures.count(stage.count), figures.duration(stage.mean_us)] in [
        row[:4] for row in rows
    ]
    assert [row[0] for row in rows if len(row) == 9][1] == "total"  # buckets
    assert [row[0] for row in rows if len(row) == 9][-1] == "start-deliver time"
    herd = report.herds[0]
    assert ["1", figures.count(herd.seconds), figures.count(herd.deliveries)] in [row[:3] for row in rows]
    assert "7 more starts and moves are not marked." in page(left_out=7).words["charts"]


def test_a_comparison_shows_every_side_beside_the_baseline() -> None:
    comparison = sample_comparison()
    words = " ".join(read().words["comparison"].split())
    assert "rocketmq4 compared with exact, the baseline." in words
    assert comparison.differences[0] in words
    assert "rocketmq4 against exact" in words
    for row, judgement in zip(read().rows["comparison"][1:], comparison.judgements, strict=False):
        assert row[1:] == [judgement.text, judgement.actual, judgement.reason]
    heads = next(row for row in read().rows["comparison"] if row[0] == "of")
    assert heads[1:3] == ["measured", "on time"]
    p50 = next(c for c in comparison.changes if (c.dimension, c.name, c.metric) == ("level", "3", "p50"))
    cell = read().row("comparison", "level 3 (10s)")[heads.index("p50")]
    assert cell == (
        f"{figures.duration(p50.values[1])}was {figures.duration(p50.values[0])}"
        f"{figures.change('p50', p50.deltas[1])}{figures.ratio(p50.ratios[1])}"
    )


def change(metric: str, *values: float | None) -> d.Change:
    deltas = [None if value is None or values[0] is None else value - values[0] for value in values]
    ratios = [None if delta is None or not values[0] else 2.0 for delta in deltas]
    return d.Change(
        dimension="level",
        name="1",
        delay="1s",
        metric=metric,
        values=list(values),
        deltas=deltas,
        ratios=ratios,
    )


def test_each_side_has_a_table_that_shows_same_and_missing_figures() -> None:
    side = sample_comparison().sides[0]
    sides = [replace(side, name=name) for name in ("a", "b", "c")]
    changes = [
        change("p50", 1_000, 1_000, 2_000),
        change("lost", 0, 3, 0),
        change("p99", None, None, None),
        change("max", None, 7_000, None),
        replace(change("p50", 4, 4, 4), dimension="topic", name="orders", delay=None),
        replace(change("measured", 0, 0, 0), name="2"),
        replace(change("p50", 5_000, None, None), name="3"),
    ]
    comparison = replace(sample_comparison(), sides=sides, changes=changes, judgements=[], differences=[])
    found = page(comparison=comparison)
    assert "b and c compared with a, the baseline." in found.words["comparison"]
    assert found.rows["comparison"] == [
        ["of", "p50", "lost", "p99", "max", "measured"],
        ["level 1 (1s)", "1mssame", "3was 0+3", "–", "7mswas –", "–"],
        ["level 3 (1s)", "–was 5ms", "–", "–", "–", "–"],
        ["of", "p50", "lost", "p99", "max", "measured"],
        ["topic orders", "4µssame", "–", "–", "–", "–"],
        ["of", "p50", "lost", "p99", "max", "measured"],
        ["level 1 (1s)", "2mswas 1ms+1ms2.00x", "0same", "–", "–", "–"],
        ["level 3 (1s)", "–was 5ms", "–", "–", "–", "–"],
        ["of", "p50", "lost", "p99", "max", "measured"],
        ["topic orders", "4µssame", "–", "–", "–", "–"],
    ]


def test_empty_report_is_a_page() -> None:
    report = sample_report()
    nothing = d.Lateness(
        dimension="total",
        name="total",
        delay=None,
        measured=0,
        overdue=0,
        early=0,
        on_time=0,
        on_time_share=None,
        min_us=None,
        mean_us=None,
        max_us=None,
        percentiles={},
        within=[0] * len(report.header.cutoffs_us),
    )
    none: dict[str, Any] = dict.fromkeys(d.Reconciliation.__struct_fields__[3:], 0)
    found = page(
        header=replace(report.header, runs=[]),
        lateness=[nothing],
        reconciliation=[d.Reconciliation(dimension="total", name="total", delay=None, **none)],
        disorder=[],
        worst=[],
    )
    assert "measured0 delayed deliveries in 0 runs" in found.words[""]
    assert "host–" in found.words[""]
    assert "time2026" not in found.words[""]
    assert json.loads(found.scripts[0]) == {}
