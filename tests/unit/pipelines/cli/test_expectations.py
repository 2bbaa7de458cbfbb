"""Test how the table of a replay names the failures of a day."""

from pipelines.cli.expectations import _name_failures


def build_failure(severity: str, kind: str) -> dict[str, str]:
    return {"severity": severity, "expectation": f"expect_{kind}", "column": "c"}


def test_names_the_most_severe_failures_first_and_counts_the_others() -> None:
    infos = [build_failure("info", f"i{number}") for number in range(3)]
    names = _name_failures([*infos, build_failure("warning", "w"), build_failure("critical", "k")])
    assert names == "critical k c; warning w c; info i0 c; 2 more"


def test_names_all_of_a_few_failures() -> None:
    assert _name_failures([build_failure("info", "i")]) == "info i c"
