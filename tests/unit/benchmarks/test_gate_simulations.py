"""Test the simulations of the gates of regressions and multiclass models: true values, counts and negative controls."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from sklearn import metrics

from benchmarks.decisions import correlated_days, multiclass, regression, simulation
from benchmarks.decisions.simulation import Misses, Simulation, choose_always
from pipelines.evaluation.gates.quality import check_against_baselines
from pipelines.evaluation.statistics.estimate import Estimate
from pipelines.evaluation.statistics.weighted import compute_metric, list_metrics


@pytest.fixture(scope="module")
def regressions() -> Simulation:
    return regression.build_simulation(intervals=40, checks=60, better_checks=60, verdicts=4)


@pytest.fixture(scope="module")
def multiclass_models() -> Iterator[Simulation]:
    """Simulate with true values of fewer rows than the benchmark has."""
    cached = (multiclass.compute_truths, multiclass.compute_shares, multiclass.find_model_with_gain)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multiclass, "TRUTH_DAYS", 1_000)
        for function in (*cached, multiclass._compute_losses):
            function.cache_clear()
        yield multiclass.build_simulation(intervals=20, checks=30, better_checks=30, verdicts=4)
    for function in (*cached, multiclass._compute_losses):
        function.cache_clear()


def sample_regression(model: regression.Model) -> dict[str, float]:
    """Measure a model on 200,000 simulated rows with scikit-learn."""
    holdout = regression.simulate(choose_always(model), 4_000, 0.0, np.random.default_rng(3), rows=50)
    label, score, quantiles = holdout.label, holdout.candidate_score, holdout.candidate_quantiles
    losses = {name: metrics.mean_pinball_loss(label, quantiles[name], alpha=float(name)) for name in quantiles}
    return {
        "rmse": metrics.root_mean_squared_error(label, score),
        "mae": metrics.mean_absolute_error(label, score),
        "median_ae": metrics.median_absolute_error(label, score),
        "r2": metrics.r2_score(label, score),
        "bias": float(np.mean(score - label)),
        "pinball": float(np.mean(list(losses.values()))),
        **{f"pinball/{name}": loss for name, loss in losses.items()},
        "coverage/0.1-0.9": float(np.mean((quantiles["0.1"] <= label) & (label <= quantiles["0.9"]))),
    }


def test_the_true_values_of_a_regression_are_those_of_a_large_sample() -> None:
    sample = sample_regression(regression.CHAMPION)
    assert sample == pytest.approx(regression.compute_truths(regression.CHAMPION), rel=0.02, abs=0.25)
    assert sample["coverage/0.1-0.9"] == pytest.approx(0.8, abs=0.01)
    # The negative control: those of another model are not.
    other = regression.compute_truths(regression.Model(7.0))
    names = ("rmse", "mae", "median_ae", "r2", "pinball", "pinball/0.1", "pinball/0.5", "pinball/0.9")
    assert [name for name in names if sample[name] == pytest.approx(other[name], rel=0.02)] == []


def test_all_metrics_of_both_tasks_are_simulated(regressions: Simulation, multiclass_models: Simulation) -> None:
    assert set(regressions.truths) == set(list_metrics("regression", quantiles=tuple(regression.QUANTILES)))
    assert set(multiclass_models.truths) == set(list_metrics("multiclass", multiclass.CLASSES))


def test_a_regression_at_the_bound_loses_exactly_the_margin(regressions: Simulation) -> None:
    truths = regression.compute_truths(regressions.choose_worse(None))
    assert truths["r2"] == pytest.approx(regressions.truths["r2"] - regressions.policy.champion[0].margin)
    assert truths["pinball"] - regressions.truths["pinball"] == pytest.approx(regressions.losses["pinball"])
    for mean in (regression.MEAN, 14.0):
        rmse = np.sqrt(regression.LABEL_VARIANCE + (mean - regression.MEAN) ** 2)
        assert regression.compute_truths(regression.find_useless_model(mean))["rmse"] == pytest.approx(rmse)


def test_the_true_values_of_several_classes_are_those_of_the_metrics_on_the_same_rows(
    multiclass_models: Simulation,
) -> None:
    label, score = multiclass._simulate_truth(multiclass.CHAMPION)
    measured = {
        name: compute_metric(label, score, metric)
        for name, metric in list_metrics("multiclass", multiclass.CLASSES).items()
    }
    assert multiclass_models.truths == pytest.approx(measured, abs=1e-6)
    worse = multiclass.compute_truths(multiclass_models.choose_worse(None))
    margin = multiclass_models.policy.champion[0].margin
    assert multiclass_models.truths["macro_auc"] - worse["macro_auc"] == pytest.approx(margin, abs=2e-4)


def test_a_useless_multiclass_model_has_the_log_loss_of_the_shares(multiclass_models: Simulation) -> None:
    shares = np.array([0.23, 0.31, 0.46])
    log_loss = multiclass.compute_truths(multiclass.find_useless_model(shares))["log_loss"]
    assert log_loss == pytest.approx(-multiclass.compute_shares() @ np.log(shares), abs=1e-3)


def test_a_candidate_at_the_bound_rarely_passes(regressions: Simulation) -> None:
    passes = simulation.measure_champion_checks(regressions, regressions.choose_worse, 28, 0.0, regressions.checks)
    assert set(passes) == {f"{name} against the champion's" for name in ("r2", *regressions.losses)}
    assert max(passes.values()) <= 0.15 * regressions.checks
    # The negative control: a gate that takes rows as independent passes it often.
    policy = regressions.policy.model_copy(update={"group_by": "", "draws": 100})
    careless_gate = replace(regressions, policy=policy, losses={})
    passes = simulation.measure_champion_checks(careless_gate, regressions.choose_worse, 28, 0.0, regressions.checks)
    assert passes["r2 against the champion's"] >= 0.25 * regressions.checks


@pytest.mark.slow
@pytest.mark.soak
def test_a_better_candidate_passes_more_often(regressions: Simulation, multiclass_models: Simulation) -> None:
    for task, least in ((regressions, 0.3), (multiclass_models, 0.8)):
        worse = simulation.measure_champion_checks(task, task.choose_worse, 28, 0.0, task.checks)
        better = simulation.measure_champion_checks(task, task.choose_better, 28, 0.0, task.better_checks)
        name = f"{task.policy.champion[0].metric} against the champion's"
        assert worse[name] <= 0.2 * task.checks
        assert better[name] >= least * task.better_checks


@pytest.mark.slow
@pytest.mark.soak
def test_a_useless_model_rarely_passes(regressions: Simulation, multiclass_models: Simulation) -> None:
    for task in (regressions, multiclass_models):
        for trivial_model, choose in task.trivial_candidates.items():
            count = simulation.measure_baseline_check(task, choose, trivial_model, 28, 0.5)
            assert count <= 0.2 * task.checks
            # The negative control: the champion is better than each trivial model.
            count = simulation.measure_baseline_check(task, task.choose_equal, trivial_model, 28, 0.5)
            assert count >= 0.9 * task.checks


def test_the_mean_itself_never_passes(regressions: Simulation) -> None:
    holdout = regression.simulate(regressions.choose_equal, 14, 0.0, np.random.default_rng(5))
    checks = check_against_baselines(holdout, regressions.policy)
    assert [check.outcome for check in checks] == ["passed", "passed"]
    assert [check.name.partition("against ")[2] for check in checks] == list(regressions.trivial_candidates)
    mean = replace(holdout, candidate_score=np.full_like(holdout.label, regression.MEAN))
    assert check_against_baselines(mean, regressions.policy)[0].outcome != "passed"


def test_intervals_contain_the_truth_and_no_other_value(regressions: Simulation) -> None:
    facts = simulation.measure_intervals(regressions, 28, 0.0)
    assert len(facts) == len(regressions.truths)
    assert min(read_share(text) for text in facts.values()) >= 80
    wrong_truths = {"rmse": regressions.truths["rmse"] + 6, "coverage/0.1-0.9": 0.95}
    facts = simulation.measure_intervals(replace(regressions, truths=wrong_truths), 28, 0.0)
    assert max(read_share(text) for text in facts.values()) <= 10


def read_share(text: str) -> float:
    return float(text.partition(" %")[0])


def test_misses_have_a_side() -> None:
    misses = Misses()
    for low, high in ((0.0, 2.0), (1.5, 2.0), (0.0, 0.5), (0.0, 0.9)):
        misses.add("rmse", Estimate(1.0, low, high, 0.1, 10), truth=1.0)
    text = misses.describe(["rmse"], 4)["rmse: 95 % interval contains the truth"]
    assert text == "25.0 % (truth below 25.0 %, above 50.0 %)"


def describe_case(kind: str, days: int) -> dict[str, str]:
    return {"kind": f"{kind} {days}"}


def test_verdicts_and_precision_are_reported(regressions: Simulation) -> None:
    outcomes = simulation.measure_verdicts(regressions, regressions.choose_equal, 14, 0.5)
    assert sum(outcomes.values()) == regressions.verdicts
    result = simulation.measure_cases([14], {"check": (400, 0.05)}, describe_case)
    assert result["facts"]["simulations of a check"] == "400; standard error of 5 %: 1.1 points"
    assert result["facts"]["correlated days, 14 days: kind"] == "correlated days 14"


def test_a_bound_passes_more_often_on_correlated_days() -> None:
    shares = {}
    for correlation in (0.0, 0.7):
        values = correlated_days.simulate_days(14, correlation, 8_000)
        assert values.mean(axis=0).std() == pytest.approx(correlated_days.compute_true_error(14, correlation), rel=0.03)
        name, text = correlated_days.measure_interval(values, correlation, correlated_days.FACTORS[0])
        assert name == f"14 days, correlated by {correlation}, 2 coefficients"
        shares[correlation] = read_share(text.partition("passes in ")[2])
    assert shares[0.0] == pytest.approx(5, abs=0.8)
    assert shares[0.7] > 7
    # With days of the other correlation, the true error is another.
    assert values.mean(axis=0).std() != pytest.approx(correlated_days.compute_true_error(14, 0.0), rel=0.2)
