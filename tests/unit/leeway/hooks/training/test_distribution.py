"""Test the hyperparameters that start torchrun or mpirun in SageMaker's images."""

import pytest
from airflow.sdk.exceptions import AirflowFailException
from leeway.hooks.training.distribution import build_distribution_settings

TORCH = {"torch_distributed": {"enabled": True}}


def test_settings_are_those_of_the_sdk():
    assert build_distribution_settings(TORCH, "ml.g5.xlarge") == {
        "sagemaker_torch_distributed_enabled": "true",
        "sagemaker_instance_type": "ml.g5.xlarge",
    }
    mpi = {"enabled": "True", "processes_per_host": "4", "custom_mpi_options": "-verbose"}  # a template renders texts
    assert build_distribution_settings({"mpi": mpi}, "ml.m5.large") == {
        "sagemaker_mpi_enabled": "true",
        "sagemaker_mpi_num_of_processes_per_host": "4",
        "sagemaker_mpi_custom_mpi_options": "-verbose",
    }


@pytest.mark.parametrize("distribution", [None, {}, {"torch_distributed": {"enabled": False}}])
def test_there_are_none_without_a_distribution(distribution):
    assert build_distribution_settings(distribution, "ml.m5.large") == {}


@pytest.mark.parametrize(
    ("distribution", "problem"),
    [
        ({"smdistributed": {"dataparallel": {"enabled": True}}}, "which is not supported: give {"),
        ({"mpi": True}, "which is not supported: give {"),
        ({"torch_distributed": {"enable": True}}, "torch_distributed has no option enable: give {"),
        ({**TORCH, "mpi": {"enabled": True}}, "enables torch_distributed and mpi: enable one of them"),
        ({"mpi": {"enabled": True, "processes_per_host": 0}}, "processes_per_host of distribution must be a whole"),
    ],
)
def test_an_unknown_distribution_is_refused(distribution, problem):
    with pytest.raises(AirflowFailException, match=problem):
        build_distribution_settings(distribution, "ml.m5.large")
