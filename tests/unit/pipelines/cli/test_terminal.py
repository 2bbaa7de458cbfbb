"""Test the JSON that commands write."""

import pytest

from pipelines.cli.terminal import write_json
from pipelines.errors import SpecError


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
def test_a_number_that_json_lacks_is_refused(number: float, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SpecError, match="infinite or NaN"):
        write_json({"rows": [{"usd": number}]}, is_strict=True)
    assert capsys.readouterr().out == ""
    write_json({"rows": [{"usd": 1.5}]}, is_strict=True)
    assert '"usd": 1.5' in capsys.readouterr().out
