"""Test infra/terraform by Terraform itself: it is formatted and valid, and its plan has the promised resources.

The tests are skipped on a machine without terraform, or without a local copy of the AWS provider.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.serving.endpoint_resources import ALARM_KINDS, VARIANT, build_alarm_names
from tests.tools.terraform import VARIABLES, Terraform

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def terraform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terraform]:
    """Start a server for STS, and initialize a copy of the configuration."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    terraform = Terraform(tmp_path_factory.mktemp("terraform"), f"http://{host}:{port}")
    terraform.init()
    yield terraform
    server.stop()


@pytest.fixture(scope="module")
def resources(terraform: Terraform) -> dict[str, list[dict[str, Any]]]:
    """Return the resources resources: type to the values of each resource of that type."""
    return plan_resources(terraform)


def plan_resources(terraform: Terraform, **changes: Any) -> dict[str, list[dict[str, Any]]]:
    """Make a plan, and return its resources: type to the values of each resource of that type."""
    result = terraform.plan(**changes)
    assert result.returncode == 0, result.stderr
    plan = json.loads(terraform.run("show", "-json", "plan").stdout)
    resources: dict[str, list[dict[str, Any]]] = {}
    for resource in plan["planned_values"]["root_module"]["resources"]:
        values = {**resource.get("values", {}), "key": resource.get("index")}
        resources.setdefault(resource["type"], []).append(values)
    return resources


def test_configuration_is_formatted_and_valid(terraform: Terraform) -> None:
    assert terraform.run("fmt", "-check", "-recursive", "-diff").stdout == ""
    result = terraform.run("validate", "-json")
    assert json.loads(result.stdout)["valid"] is True, result.stdout


@pytest.mark.soak
def test_reference_to_a_missing_resource_is_invalid(terraform: Terraform) -> None:
    wrong_file = terraform.folder / "wrong.tf"
    wrong_file.write_text('output "wrong" {\n  value = aws_s3_bucket.none.id\n}\n')
    result = terraform.run("validate", "-json")
    wrong_file.unlink()
    assert json.loads(result.stdout)["valid"] is False


def test_each_bucket_is_versioned_encrypted_and_private_and_deletes_old_versions(resources: dict[str, Any]) -> None:
    names = {bucket["key"] for bucket in resources["aws_s3_bucket"]}
    assert names == {"artifacts", "lake", "source"}
    for kind in (
        "versioning",
        "server_side_encryption_configuration",
        "public_access_block",
        "policy",
        "ownership_controls",
        "lifecycle_configuration",
    ):
        assert {resource["key"] for resource in resources[f"aws_s3_bucket_{kind}"]} == names, kind
    for versioning in resources["aws_s3_bucket_versioning"]:
        assert versioning["versioning_configuration"][0]["status"] == "Enabled"
    for encryption in resources["aws_s3_bucket_server_side_encryption_configuration"]:
        (default,) = encryption["rule"][0]["apply_server_side_encryption_by_default"]
        assert default["sse_algorithm"] == "aws:kms"
    for block in resources["aws_s3_bucket_public_access_block"]:
        settings = ("block_public_acls", "block_public_policy", "ignore_public_acls", "restrict_public_buckets")
        assert all(block[name] is True for name in settings)
    for lifecycle in resources["aws_s3_bucket_lifecycle_configuration"]:
        assert lifecycle["rule"][0]["noncurrent_version_expiration"][0]["noncurrent_days"] == 30
    assert not any(bucket["force_destroy"] for bucket in resources["aws_s3_bucket"])


def test_models_and_the_lake_never_expire(resources: dict[str, Any]) -> None:
    for lifecycle in resources["aws_s3_bucket_lifecycle_configuration"]:
        prefixes = [rule["filter"][0]["prefix"] for rule in lifecycle["rule"] if rule.get("expiration")]
        assert lifecycle["key"] == "artifacts" or not prefixes
        assert {"leeway/jobs/", "leeway/code/", "dvc/", "", None}.isdisjoint(prefixes)


def test_keys_rotate_secrets_have_no_value_and_people_are_notified(resources: dict[str, Any]) -> None:
    (key,) = resources["aws_kms_key"]
    assert key["enable_key_rotation"] is True
    assert "aws_secretsmanager_secret_version" not in resources, "a secret's value would be in Terraform's state"
    assert {secret["name"] for secret in resources["aws_secretsmanager_secret"]} == {
        "leeway/connections/smtp_default",
        "leeway/connections/slack_default",
    }
    assert [subscription["endpoint"] for subscription in resources["aws_sns_topic_subscription"]] == ["ml@example.com"]
    assert {budget["name"]: float(budget["limit_amount"]) for budget in resources["aws_budgets_budget"]} == {
        "acme-all": 500,
        "acme-training": 100,
    }
    assert len(resources["aws_cloudwatch_metric_alarm"]) == 2


def test_airflow_is_private_and_reads_its_connections_from_secrets(resources: dict[str, Any]) -> None:
    (airflow,) = resources["aws_mwaa_environment"]
    assert (airflow["webserver_access_mode"], airflow["max_workers"]) == ("PRIVATE_ONLY", 1)
    options = airflow["airflow_configuration_options"]
    assert options["secrets.backend"].endswith("SecretsManagerBackend")
    assert json.loads(options["secrets.backend_kwargs"])["connections_prefix"] == "leeway/connections"


def test_the_alarms_of_endpoints_are_mailed(resources: dict[str, Any]) -> None:
    (rule,) = [rule for rule in resources["aws_cloudwatch_event_rule"] if rule["name"] == "acme-endpoint-alarm"]
    detail = json.loads(rule["event_pattern"])["detail"]
    prefix = build_alarm_names("flights")["errors"].removesuffix("flights-errors")
    assert detail == {"alarmName": [{"prefix": prefix}], "state": {"value": ["ALARM"]}}
    assert {target["rule"] for target in resources["aws_cloudwatch_event_target"]} >= {rule["name"]}


@pytest.mark.soak
def test_the_number_of_instances_follows_the_load_and_an_asynchronous_endpoint_may_have_none(
    terraform: Terraform, resources: dict[str, Any]
) -> None:
    assert "aws_appautoscaling_target" not in resources, "only on request"
    scaling = {"flights": {"max": 4, "requests_a_minute": 600}, "nightly": {"min": 0, "max": 2, "backlog": 5}}
    planned = plan_resources(terraform, scaling=scaling)
    targets = {item["key"]: item for item in planned["aws_appautoscaling_target"]}
    assert targets["flights"]["resource_id"] == f"endpoint/flights/variant/{VARIANT}"
    assert {key: (item["min_capacity"], item["max_capacity"]) for key, item in targets.items()} == {
        "flights": (1, 4),
        "nightly": (0, 2),
    }
    policies = {(item["key"], item["name"]): item for item in planned["aws_appautoscaling_policy"]}
    assert set(policies) == {("flights", "load"), ("nightly", "load"), ("nightly", "first-instance")}
    (load,) = policies["flights", "load"]["target_tracking_scaling_policy_configuration"]
    (metric,) = load["predefined_metric_specification"]
    assert (metric["predefined_metric_type"], load["target_value"]) == ("SageMakerVariantInvocationsPerInstance", 600)
    (load,) = policies["nightly", "load"]["target_tracking_scaling_policy_configuration"]
    (metric,) = load["customized_metric_specification"]
    assert (metric["metric_name"], load["target_value"]) == ("ApproximateBacklogSizePerInstance", 5)
    (alarm,) = [item for item in planned["aws_cloudwatch_metric_alarm"] if item["namespace"] == "AWS/SageMaker"]
    assert alarm["metric_name"] == "HasBacklogWithoutCapacity"


def test_endpoints_are_known_to_terraform_only_on_request(resources: dict[str, Any]) -> None:
    """test_terraform_endpoint.py adopts one that DeployOperator made."""
    assert "aws_sagemaker_endpoint" not in resources
    variables = (ROOT / "infra/terraform/variables.tf").read_text()
    assert all(f'"{kind}"' in variables for kind in ALARM_KINDS), "the names that DeployOperator uses are refused"


def list_principals(resources: dict[str, Any]) -> dict[str, list[Any]]:
    """Return who may assume each role."""
    documents = {role["key"]: json.loads(role["assume_role_policy"]) for role in resources["aws_iam_role"]}
    return {
        name: [statement["Principal"] for statement in document["Statement"]] for name, document in documents.items()
    }


def test_only_mwaa_may_assume_the_role_of_its_airflow(resources: dict[str, Any]) -> None:
    principals = list_principals(resources)["airflow"]
    assert principals == [{"Service": ["airflow.amazonaws.com", "airflow-env.amazonaws.com"]}]


@pytest.mark.soak
def test_only_the_named_user_may_assume_the_role_of_an_airflow_outside_mwaa(
    terraform: Terraform, resources: dict[str, Any]
) -> None:
    ann = "arn:aws:iam::123456789012:user/ann"
    services = list_principals(resources)
    with_ann = list_principals(plan_resources(terraform, mwaa=None, assumed_by=[ann]))
    assert with_ann == {**services, "airflow": [*services["airflow"], {"AWS": [ann]}]}


def test_workers_restart_when_the_project_changes() -> None:
    """MWAA watches the version of startup.sh, not of pipelines.tar.gz: so startup.sh names that version."""
    script = (ROOT / "infra" / "terraform" / "startup.sh").read_text()
    assert '--key pipelines.tar.gz --version-id "${project}"' in script
    configuration = (ROOT / "infra" / "terraform" / "mwaa.tf").read_text()
    assert 'aws_s3_object.dist["pipelines.tar.gz"].version_id' in configuration


def test_each_wrong_variable_is_refused_with_a_message(terraform: Terraform) -> None:
    wrong_values: dict[str, tuple[Any, str]] = {
        "account": ("12345", "An account has 12 digits"),
        "emails": ([], "nobody receives the alarms"),
        "name": ("Acme Corp", "lower-case"),
        "month_usd": (0, "greater than 0"),
        "assumed_by": (["*"], "ARNs of users and roles"),
        "mwaa": ({**VARIABLES["mwaa"], "subnet_ids": ["subnet-1"]}, "exactly two subnets"),
        "endpoints": (
            {"flights": {"alarms": {"latency": {"metric": "ModelLatency", "statistic": "p99", "threshold": 9}}}},
            "DeployOperator makes the alarms errors, error-count and latency itself",
        ),
        "scaling": ({"flights": {"min": 0, "max": 2, "requests_a_minute": 600}}, "Only an asynchronous endpoint"),
    }
    result = terraform.plan(**{name: value for name, (value, _) in wrong_values.items()})
    message = " ".join(result.stderr.replace("│", " ").split())
    assert result.returncode == 1
    for name, (_, text) in wrong_values.items():
        assert text in message, name
