"""Write the figures of a calculation: a table with their formulas and sources, or JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from pipelines.cli.terminal import make_console, write_json, write_line
from pipelines.errors import SpecError
from pipelines.planning.confidence import Band
from pipelines.planning.formulas import FORMULAS


@dataclass(frozen=True)
class Figure:
    """A number that was calculated.

    Attributes:
        name: what the number is.
        value: the number; None if there is none, such as the payback of a machine that never pays off.
        unit: unit of the number.
        formula: name of the formula in `FORMULAS`.
        band: range of the number, if it was computed from ranges.
    """

    name: str
    value: float | None
    unit: str
    formula: str
    band: Band | None = None


@dataclass
class Report:
    """The figures and notes of a calculation.

    Attributes:
        title: title of the table.
        figures: the figures.
        notes: sentences that explain the figures, and say what is not counted.
    """

    title: str
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, value: float | None, unit: str, formula: str, band: Band | None = None) -> None:
        """Add a figure.

        Raises:
            SpecError: the figure or an end of its band is not a finite number. A retry cannot help.
        """
        for number in (value, band.lowest, band.highest) if band else (value,):
            if number is not None and not math.isfinite(number):
                raise SpecError(f"{name} is not a finite number.", "A size, time or price is absurdly large or small.")
        self.figures.append(Figure(name, value, unit, formula, band))


def write_report(report: Report, *, as_json: bool) -> None:
    """Write the figures, a line for each formula with its source, and the notes; or all of it as JSON."""
    if as_json:
        write_json(
            {"figures": [_build_record(figure) for figure in report.figures], "notes": report.notes}, is_strict=True
        )
        return
    make_console().print(_build_table(report))
    for formula in dict.fromkeys(figure.formula for figure in report.figures):
        figure_names = ", ".join(figure.name for figure in report.figures if figure.formula == formula)
        write_line(f"{figure_names} = {FORMULAS[formula].text} [{FORMULAS[formula].source}]")
    for note in report.notes:
        write_line(note)


def format_number(value: float | None) -> str:
    """Format a number with four significant digits; from 1,000 to 10^15, as a whole number; None as a dash."""
    if value is None:
        return "-"
    if value == 0 or 1e-3 <= abs(value) < 1e15:
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:.3e}"


def _build_table(report: Report) -> object:
    from rich.table import Table

    table = Table(title=report.title, title_justify="left")
    table.add_column("figure")
    table.add_column("value", justify="right")
    has_bands = any(figure.band for figure in report.figures)
    for column in ("5 % to 95 %", "extremes") if has_bands else ():
        table.add_column(column, justify="right")
    table.add_column("unit")
    for figure in report.figures:
        band = figure.band
        ranges = [(band.low, band.high), (band.lowest, band.highest)] if band else [None, None]
        cells = [" to ".join(map(format_number, ends)) if ends else "" for ends in ranges] if has_bands else []
        table.add_row(figure.name, format_number(figure.value), *cells, figure.unit)
    return table


def _build_record(figure: Figure) -> dict[str, object]:
    formula = FORMULAS[figure.formula]
    record: dict[str, object] = {"name": figure.name, "value": figure.value, "unit": figure.unit}
    if figure.band:
        band = figure.band
        record["band"] = {name: getattr(band, name) for name in ("lowest", "low", "median", "high", "highest")}
    return record | {"formula": formula.text, "source": formula.source}
