"""Test the request of a job: its moments and months, and which requests are refused."""

from datetime import date

import pytest
from typer.testing import CliRunner

from stack import cli
from stack.jobs.request import Request


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "2013-02-01", "--to", "2013-01-01"], "is after"),
        (["--as-of", "2013-03-02"], "not the first of a month"),
    ],
)
def test_refuses_a_wrong_request(arguments, message):
    result = CliRunner().invoke(cli.app, ["demo", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr


def test_sorts_the_moments_and_removes_duplicates():
    request = Request.create(date(2013, 1, 1), date(2013, 1, 3), [date(2013, 4, 1), date(2013, 3, 1)] * 2, False)
    assert request.as_of == [date(2013, 3, 1), date(2013, 4, 1)]
    assert len(request.days) == 3


@pytest.mark.parametrize(
    ("start", "end", "months"),
    [
        ((2013, 1, 20), (2013, 1, 30), [1]),
        ((2013, 1, 20), (2013, 1, 31), [1, 2]),  # a late flight departs on the next day, in UTC
        ((2013, 11, 1), (2013, 12, 31), [11, 12]),  # there is no weather after the year
    ],
)
def test_months_are_those_whose_weather_the_flights_need(start, end, months):
    request = Request.create(date(*start), date(*end), [], False)
    assert request.months == [date(2013, month, 1) for month in months]
