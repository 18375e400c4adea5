"""Our ceilings compared with published measurements: never below them, and close if one link is the
limit."""

import statistics

import pytest
from tools.measurements import PAGE, page

from tests.fabric.ceilings.published import COPIES, PUBLISHED, SPARKS


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: f"{row.what} {row.hardware}")
def test_no_measurement_exceeds_our_ceiling_by_more_than_its_error(row):
    assert row.gb_per_s * (1 - row.error) <= row.ceiling.high_gb_per_s


def test_the_middle_of_our_bounds_is_off_by_at_most_five_percent_in_the_median():
    errors = [row.prediction_error for row in PUBLISHED if not row.limited_by]

    assert len(errors) >= 30
    assert statistics.median(errors) <= 0.05


def test_the_median_error_is_small_for_links_and_for_ports_separately():
    copies = [row.prediction_error for row in COPIES if not row.limited_by]
    ports = [row.prediction_error for row in PUBLISHED if not row.limited_by and row.ports]

    assert statistics.median(copies) <= 0.05
    assert statistics.median(ports) <= 0.05


def test_what_is_below_our_bounds_says_what_limited_it_or_that_its_source_does_not():
    below = [row for row in PUBLISHED if row.gb_per_s < row.ceiling.low_gb_per_s]

    assert len(below) == 10
    assert all(row.limited_by for row in below)


def test_the_summary_counts_every_row():
    inside = [row for row in PUBLISHED if not row.is_outside]

    assert f"{len(PUBLISHED)} rows" in page()
    assert f"{len(inside)} are inside the bounds" in page()
    assert f"| all | {len(PUBLISHED)} |" in page()


def test_at_least_thirty_rows_are_by_others_and_every_row_has_a_source():
    others = [row for row in PUBLISHED if row.source != "measured for gdrkit"]

    assert len(others) >= 30
    assert all(row.source for row in PUBLISHED)


def test_the_forums_number_is_within_our_bounds_and_far_below_two_ports():
    row = next(row for row in SPARKS if row.value == 25.67)

    assert row.gb_per_s in row.ceiling
    assert row.ceiling.high_gb_per_s < 0.65 * 50.0


def test_the_page_is_generated_from_the_table():
    assert PAGE.read_text() == page(), "run: uv run --no-sync python -m tools.measurements"
