"""What a replay's table says of a day."""

from pipelines.cli.expectations import _because


def fault(severity: str, kind: str) -> dict[str, str]:
    return {"severity": severity, "expectation": f"expect_{kind}", "column": "c"}


def test_the_gravest_reasons_come_first_and_the_others_are_counted() -> None:
    infos = [fault("info", f"i{number}") for number in range(3)]
    told = _because([*infos, fault("warning", "w"), fault("critical", "k")])
    assert told == "critical k c; warning w c; info i0 c; 2 more"


def test_few_reasons_are_all_told() -> None:
    assert _because([fault("info", "i")]) == "info i c"
