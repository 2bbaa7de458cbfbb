"""How the table of a replay names the failures of a day."""

from pipelines.cli.expectations import _name_failures


def failure(severity: str, kind: str) -> dict[str, str]:
    return {"severity": severity, "expectation": f"expect_{kind}", "column": "c"}


def test_names_the_most_severe_failures_first_and_counts_the_others() -> None:
    infos = [failure("info", f"i{number}") for number in range(3)]
    names = _name_failures([*infos, failure("warning", "w"), failure("critical", "k")])
    assert names == "critical k c; warning w c; info i0 c; 2 more"


def test_names_all_of_a_few_failures() -> None:
    assert _name_failures([failure("info", "i")]) == "info i c"
