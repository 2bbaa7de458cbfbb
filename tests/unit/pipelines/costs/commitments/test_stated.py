"""Test that a stated commitment with a wrong amount, term, day or discount is refused in one line."""

import datetime as dt

import pytest

from pipelines.costs.commitments.stated import StatedCommitment
from pipelines.costs.showback.policy import ShowbackPolicy
from pipelines.errors import SpecError

VALID = {"usd_h": 7, "term": "1y", "begin": "2026-03-01"}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"usd_h": -1}, "usd_h"),
        ({"usd_h": 0}, "usd_h"),
        ({"usd_h": float("nan")}, "usd_h"),
        ({"usd_h": float("inf")}, "usd_h"),
        ({"usd_h": 2_000_000}, "usd_h"),
        ({"usd_h": "seven"}, "usd_h"),
        ({"usd_h": True}, "usd_h"),
        ({"term": "2y"}, "term.*'1y' or '3y'"),
        ({"begin": "2026-13-01"}, "begin"),
        ({"begin": "9999-12-31"}, "begin"),
        ({"discount": 0}, "discount"),
        ({"discount": 1}, "discount"),
        ({"discount": 30}, "discount"),
        ({"discount": float("nan")}, "discount"),
        ({"plan": "compute"}, "plan"),
    ],
)
def test_wrong_commitment_gives_one_line(change, text):
    with pytest.raises(SpecError, match=f"commitments.0.{text}") as caught:
        ShowbackPolicy.parse({"commitments": [VALID | change]}, "params.yaml, section 'showback'")
    assert "\n" not in str(caught.value)


def test_missing_field_and_wrong_list_are_refused():
    for commitments in ([{"usd_h": 7}], {"usd_h": 7}, [7]):
        with pytest.raises(SpecError, match="commitments"):
            ShowbackPolicy.parse({"commitments": commitments}, "section")


def test_valid_commitment_has_its_term():
    (commitment,) = ShowbackPolicy.parse({"commitments": [VALID]}, "section").commitments
    assert commitment == StatedCommitment(usd_h=7.0, term="1y", begin=dt.date(2026, 3, 1))
    assert commitment.end == dt.date(2027, 3, 1)
    assert commitment.model_copy(update={"term": "3y"}).end == dt.date(2029, 2, 28), "2028 has a day more"
