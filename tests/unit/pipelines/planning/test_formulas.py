"""Test that the page of formulas has each formula with its source."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.planning.formulas import FORMULAS

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "planning.md"


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_page_has_the_formula_and_its_source(name: str) -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    formula = FORMULAS[name]
    assert f"`{formula.text}`" in page
    assert formula.source in page


def test_formulas_name_a_source() -> None:
    assert all(formula.text and formula.source for formula in FORMULAS.values())
