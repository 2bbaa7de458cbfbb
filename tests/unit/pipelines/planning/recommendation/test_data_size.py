"""Test the time that is predicted from the amount of the data, and the option --data-size."""

import random

import pytest
from scipy import stats

from pipelines.errors import SpecError
from pipelines.planning.recommendation.data_size import (
    GROWTH,
    Line,
    SizedJob,
    fit_line,
    fit_times,
    format_bytes,
    parse_data_size,
)

GIB = 2.0**30
MEDIAN_JOBS = 5


def make_jobs(*pairs: tuple[float, float]) -> list[SizedJob]:
    """Return jobs from pairs of GiB and seconds."""
    return [SizedJob(gib * GIB, seconds) for gib, seconds in pairs]


def compute_s(line: Line | None, gib: float) -> float:
    assert line
    return line.compute_s(gib * GIB)


def test_a_line_is_found_exactly() -> None:
    line = fit_line(make_jobs(*((gib, 60 + 100 * gib) for gib in (1, 2, 4, 8))))
    assert line and line.fixed_s == pytest.approx(60) and line.s_per_byte * GIB == pytest.approx(100)


@pytest.mark.parametrize("seed", range(5))
def test_the_line_is_that_of_scipy_if_all_sizes_differ(seed: int) -> None:
    generator = random.Random(seed)
    jobs = make_jobs(*((1.3**n, 200 + 100 * 1.3**n + generator.gauss(0, 10)) for n in range(10)))
    times, sizes = [job.seconds for job in jobs], [job.data_bytes for job in jobs]
    expected = stats.theilslopes(times, sizes, method="joint")
    line = fit_line(jobs)
    assert line and (line.s_per_byte, line.fixed_s) == pytest.approx((expected.slope, expected.intercept))


def test_a_job_that_went_wrong_is_ignored() -> None:
    right = [(gib, 60 + 100 * gib) for gib in (1, 2, 3, 4, 5, 6)]
    line = fit_line(make_jobs(*right, (5.5, 9_000)))
    assert compute_s(line, 6) == pytest.approx(660, rel=0.1)
    gibs, times = zip(*right, (5.5, 9_000), strict=True)
    least_squares = stats.linregress(gibs, times)
    assert least_squares.intercept + 6 * least_squares.slope > 1_000, "the negative control"


def test_neither_part_is_negative() -> None:
    falling = fit_line(make_jobs((1, 300), (2, 200), (4, 100)))
    assert falling == Line(200, 0.0)
    steep = fit_line(make_jobs((1, 100), (2, 250), (4, 800)))
    assert steep and steep.fixed_s == 0 and steep.s_per_byte * GIB == pytest.approx(125)


def test_many_jobs_of_nearly_the_same_size_do_not_hide_the_slope() -> None:
    """Among pairs of nearly equal sizes, the slope is chance: these pairs, the most here, do not count."""
    equal_jobs = [(1 + 0.001 * n, 100.0 + n) for n in range(10)]
    line = fit_line(make_jobs(*equal_jobs, (2, 200)))
    assert compute_s(line, 2) == pytest.approx(200, rel=0.05) and compute_s(line, 1) == pytest.approx(105, rel=0.05)
    slopes = stats.theilslopes(*zip(*[(seconds, gib) for gib, seconds in [*equal_jobs, (2, 200)]], strict=True))
    assert abs(slopes.slope - 100) > 100, "the negative control"


def test_inside_of_the_sizes_the_band_is_that_of_the_times() -> None:
    time = fit_times(make_jobs((1, 160), (2, 260), (4, 460)), MEDIAN_JOBS).predict(3 * GIB)
    assert time.seconds == pytest.approx(360) and time.extrapolation == (1, 1) and time.risk == ""


def test_outside_of_the_sizes_the_band_reaches_from_no_growth_to_more_than_proportional_growth() -> None:
    times = fit_times(make_jobs((1, 160), (2, 260), (4, 460)), MEDIAN_JOBS)
    far = times.predict(40 * GIB)
    low, high = (far.seconds * factor for factor in far.extrapolation)
    assert (low, far.seconds, high) == pytest.approx((460, 4_060, 460 * 10**GROWTH))
    assert far.risk == "past jobs had 1 GiB to 4 GiB of data: the time is extrapolated, and more memory may be needed"
    small = times.predict(GIB / 10)
    low, high = (small.seconds * factor for factor in small.extrapolation)
    assert (low, small.seconds, high) == pytest.approx((160 * 0.1**GROWTH, 70, 160)) and "memory" not in small.risk
    widths = [high / low for gib in (4, 5, 8, 40) for low, high in [times.predict(gib * GIB).extrapolation]]
    assert widths == sorted(widths) and widths[0] == 1, "the further outside, the wider"


@pytest.mark.parametrize("jobs", [[(2, 100)], [(2, 90), (2.1, 100), (1.9, 110)]])
def test_without_different_sizes_the_fixed_part_is_not_known(jobs: list[tuple[float, float]]) -> None:
    times = fit_times(make_jobs(*jobs), MEDIAN_JOBS)
    assert times.line is None
    same = times.predict(2 * GIB)
    assert (same.seconds, same.extrapolation) == (100, (1, 1)), "the median, as without sizes"
    largest = max(gib for gib, _ in jobs)
    more = times.predict(4 * largest * GIB)
    low, high = (more.seconds * factor for factor in more.extrapolation)
    assert (low, more.seconds, high) == pytest.approx((100, 200, 100 * 4**GROWTH))
    assert "of data: the time is extrapolated" in more.risk


def test_only_the_newest_jobs_count_without_a_line() -> None:
    times = fit_times(make_jobs(*((1, 1_000) for _ in range(5)), *((1, 100 + n) for n in range(5))), MEDIAN_JOBS)
    assert (times.median_s, times.jobs) == (102, 5)


@pytest.mark.parametrize(
    ("text", "data_bytes"),
    [("3GiB", 3 * GIB), ("3 GiB", 3 * GIB), ("500MB", 5e8), ("1.5TiB", 1.5 * 2**40), ("1024B", 1_024), ("7KB", 7_000)],
)
def test_sizes_are_parsed(text: str, data_bytes: float) -> None:
    assert parse_data_size("--data-size", text) == data_bytes


@pytest.mark.parametrize("text", ["3", "GiB", "3 gib", "3Gb", "-3GiB", "1,5GiB", "nan GiB", "infGiB", "3e9B", "3GiB/s"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match="is not an amount of data") as error:
        parse_data_size("--data-size", text)
    assert "3GiB" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["0GiB", "0.5B", "1025PiB", f"{'9' * 400}PB"])
def test_absurd_sizes_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match="must be from 1 B to 1024 PiB"):
        parse_data_size("--data-size", text)
    assert parse_data_size("--data-size", "") is None


def test_sizes_are_formatted() -> None:
    assert [format_bytes(value) for value in (12, 1_023.9, 1.5 * GIB, 2.0**60)] == [
        "12 B",
        "1 KiB",
        "1.5 GiB",
        "1.02e+03 PiB",
    ]
