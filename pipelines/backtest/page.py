"""A backtest for people: a chart as PNG, and one HTML page that holds it and every number.

Equal studies give equal bytes.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from statistics import fmean

import matplotlib as mpl

from pipelines.backtest.study import Strategy, Study
from pipelines.costs.charges import usd
from pipelines.system.files import replace_file

mpl.use("Agg")
from matplotlib import pyplot as plt

STYLES = (
    {"color": "#1f5fa8", "marker": "o", "linewidth": 2.2},
    {"color": "#8c8c8c", "marker": "s", "linewidth": 1.8, "linestyle": "--"},
    {"color": "#e08a1e", "marker": "D", "linewidth": 1.4, "linestyle": "-.", "markersize": 5},
)
"""Line styles of the strategies, in their order. Where two lines coincide, the thinner one is drawn on top."""
HEADS = ("", "trainings", "refused", "cost USD", "mean AUC", "worst month")
CSS = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 72rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem } img { max-width: 100% }
div { overflow-x: auto } table { border-collapse: collapse } caption { text-align: left; color: #555 }
th, td { padding: .25rem .45rem; text-align: right; border-bottom: 1px solid #e4e4e4; white-space: nowrap }
th:first-child, td:first-child { text-align: left } small { color: #777 } i { color: #b8434e; font-style: normal }
"""


def write(folder: Path, study: Study) -> Path:
    """`folder` holds backtest.png and backtest.html; returns the page, which needs no other file and no network."""
    picture, page = folder / "backtest.png", folder / "backtest.html"
    draw(picture, study)
    with replace_file(page) as making:
        making.write_text(_html(study, picture.read_bytes()), encoding="utf-8")
    return page


def lines(study: Study) -> list[str]:
    """List one line for each strategy, for a terminal."""
    span = f"{_month(study, 0)} to {_month(study, -1)}"
    head = f"{study.model}, {span}: {len(study.months)} month(s), {sum(month.rows for month in study.months):,} rows."
    return [head, *(f"{strategy.name:16} {_summary(strategy, study)}" for strategy in study.strategies)]


def draw(path: Path, study: Study) -> None:
    """`path` is a PNG of each strategy's AUC by month."""
    names = [_month(study, n) for n in range(len(study.months))]
    figure, axis = plt.subplots(figsize=(max(7.5, 0.75 * len(names) + 2.5), 4.4), layout="constrained")
    for strategy, style in zip(study.strategies, STYLES, strict=True):
        axis.plot(names, strategy.monthly_auc(study.months), label=f"{strategy.name}: {_trainings(strategy)}", **style)
    axis.set_title(f"{study.model}: AUC of each month, by the model that would have served", fontsize=11, loc="left")
    axis.set_ylabel("AUC")
    axis.margins(y=0.15)
    axis.spines[["top", "right"]].set_visible(False)
    axis.yaxis.grid(True, color="#eeeeee")
    axis.set_axisbelow(True)
    if len(names) > 8:
        axis.tick_params(axis="x", rotation=45)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    with replace_file(path) as making:
        # No date or version inside: equal studies give equal bytes.
        figure.savefig(making, dpi=120, format="png", metadata={"Software": None})
    plt.close(figure)


def _html(study: Study, picture: bytes) -> str:
    title, names = escape(f"Backtest of {study.model}"), [_month(study, n) for n in range(len(study.months))]
    rows = sum(month.rows for month in study.months)
    sections = [
        f"<h1>{title}</h1>",
        f"<p>{names[0]} to {names[-1]}: {rows:,} labelled rows of table {escape(study.table)} at snapshot "
        f"{study.snapshot_id}. A month is scored only by models that were trained as of its first day or before, and a "
        "model that its gate refused serves nobody. All three begin with the same model.</p>",
        f'<img alt="AUC by month" src="data:image/png;base64,{base64.b64encode(picture).decode()}">',
        "<h2>What each would have brought and cost</h2>",
        _table(
            ("", "trainings", "refused", "cost USD", "mean AUC", "worst month"),
            [_strategy_row(strategy, study) for strategy in study.strategies],
        ),
        "".join(f"<p><b>{escape(strategy.name)}</b>: {escape(strategy.rule)}.</p>" for strategy in study.strategies),
        "<h2>Month by month</h2>",
        _table(("month", "rows", *(strategy.name for strategy in study.strategies)), _by_month(study)),
        "<h2>Every model on every month after it</h2>",
        _table(("as of", "version", "gate", "holdout", *names), _by_model(study)),
        "<p>The mean counts each month once. Cost is the ledger's, of every training job of the models' runs; a dash "
        "where it does not know one of them.</p>",
    ]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    body = "\n".join(["<body>", *sections, "</body>"])
    return f'<!doctype html>\n<html lang="en">\n<head>{head}<style>{CSS}</style></head>\n{body}\n</html>\n'


def _table(heads: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the cells of its rows are HTML already."""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"


def _strategy_row(strategy: Strategy, study: Study) -> list[str]:
    auc = strategy.monthly_auc(study.months)
    worst = min(range(len(auc)), key=auc.__getitem__)
    cost = "-" if strategy.cost_usd is None else f"{strategy.cost_usd:.4f}"
    low = f"{auc[worst]:.4f} <small>{_month(study, worst)}</small>"
    refused = sum(not model.passed for model in strategy.trained)
    return [escape(strategy.name), str(len(strategy.trained)), str(refused), cost, f"{fmean(auc):.4f}", low]


def _by_month(study: Study) -> Iterable[list[str]]:
    """The best of a month in bold; beside each its model's moment."""
    aucs = [strategy.monthly_auc(study.months) for strategy in study.strategies]
    for number, month in enumerate(study.months):
        best, cells = max(auc[number] for auc in aucs), []
        for strategy, auc in zip(study.strategies, aucs, strict=True):
            told = f"<b>{auc[number]:.4f}</b>" if auc[number] == best else f"{auc[number]:.4f}"
            cells.append(f"{told} <small>as of {strategy.served[number].as_of}</small>")
        yield [_month(study, number), f"{month.rows:,}", *cells]


def _by_model(study: Study) -> Iterable[list[str]]:
    for model in study.models:
        cells = [f"{month.auc[model.version]:.4f}" if model.version in month.auc else "" for month in study.months]
        gate = "passed" if model.passed else "<i>refused</i>"
        yield [str(model.as_of), escape(model.version), gate, f"{model.holdout_auc:.4f}", *cells]


def _summary(strategy: Strategy, study: Study) -> str:
    cost = "cost unknown" if strategy.cost_usd is None else usd(strategy.cost_usd)
    return f"mean AUC {fmean(strategy.monthly_auc(study.months)):.4f}, {_trainings(strategy)}, {cost}"


def _trainings(strategy: Strategy) -> str:
    count = len(strategy.trained)
    return f"{count} training{'s' if count > 1 else ''}"


def _month(study: Study, number: int) -> str:
    return f"{study.months[number].days.first:%Y-%m}"
