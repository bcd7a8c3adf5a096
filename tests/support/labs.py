"""A lab report for tests, with every kind of subject and fixed figures."""

from mocketmq_report.document import Spectrum, SpectrumPoint
from mocketmq_report.lab import document as d

HOSTILE = "wheel<img src=x onerror=alert(1)>\x1b|"


def late(of: str, scale: int) -> d.DelayLateness:
    return d.DelayLateness(
        of=of,
        measured=2_000,
        overdue=0,
        early=0,
        mean_us=1.5 * scale,
        p50_us=scale,
        p90_us=2 * scale,
        p99_us=10 * scale,
        p999_us=None,
        max_us=20 * scale,
    )


def spectrum(scale: int) -> Spectrum:
    shares = ((50.0, 1), (90.0, 2), (99.0, 10), (100.0, 20))
    points = [
        SpectrumPoint(percentile=share, value_us=scale * times, count=round(20 * share))
        for share, times in shares
    ]
    return Spectrum(dimension="total", name="total", points=points)


def scheme(name: str, scale: int, *, is_measured: bool = True) -> d.Subject:
    steps = [
        d.GrowthStep(
            pending=pending,
            start_us=400_000 + pending * scale // 1_000,
            memory_bytes=60_000_000 + 40 * pending,
            disk_bytes=4_096 + 800 * pending,
            memory_each=40.0 if pending else None,
            disk_each=800.0 if pending else None,
        )
        for pending in (0, 1_000, 10_000, 100_000)
    ]
    return d.Subject(
        name=name,
        kind="scheme",
        version="mocketmq 0.1.0",
        lateness=[late("all", scale), late("1s", scale), late("5s", scale)],
        lateness_error_us=0,
        spectrum=spectrum(scale),
        timeline=[
            d.TimelineStep(after_us=at * 500_000, count=250, p50_us=scale, max_us=scale * (5 + at))
            for at in range(8)
        ],
        saves_per_second=4_000_000 / scale,
        herd=d.HerdRun(messages=5_000, per_second=9_876.5, late=late("all", 10 * scale))
        if is_measured
        else None,
        growth=steps,
        notes=[] if is_measured else ["the herd is not measured"],
    )


def cluster() -> d.Subject:
    return d.Subject(
        name="RocketMQ V4_9_7",
        kind="cluster",
        version="RocketMQ V4_9_7",
        lateness=[late("all", 40_000)],
        lateness_error_us=1_000,
        spectrum=spectrum(40_000),
        timeline=[],
        saves_per_second=None,
        herd=None,
        growth=[],
        notes=["saves are not measured"],
    )


def sample_lab() -> d.LabReport:
    return d.LabReport(
        title="Side by side",
        version="0.1.0",
        spark="4.1.0",
        created_wall_us=1_795_219_200_000_000,
        machine=d.Machine(
            host="box",
            cores=2,
            python="3.11.7",
            system="Linux 6",
            load_average=[0.5, 0.4, 0.3],
            directory="/data",
        ),
        load=d.Load(
            rate=500,
            seconds=8,
            delays=["1s", "5s"],
            size=200,
            herd=5_000,
            in_flight=64,
            pending=[1_000, 10_000, 100_000],
            delay_sync="always",
        ),
        subjects=[scheme("levels", 800), scheme(HOSTILE, 1_200, is_measured=False), cluster()],
        left_out=[d.LeftOut(name="sorted", reason="rocksdict is not installed")],
    )
