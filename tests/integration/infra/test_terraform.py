"""infra/terraform as Terraform itself sees it: formatted, valid, and a plan of which the promises are held.

Skipped where there is no terraform, or no copy of the AWS provider that it could take from a folder.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROVIDERS = "registry.terraform.io"
USUAL = ["~/.terraform.d/plugins", "/usr/local/share/terraform/plugins", "/usr/share/terraform/plugins"]
GIVEN: dict[str, Any] = {
    "region": "eu-west-1",
    "account": "123456789012",
    "name": "acme",
    "emails": ["ml@example.com"],
    "month_usd": 500,
    "training_month_usd": 100,
    "mwaa": {
        "vpc_id": "vpc-1",
        "subnet_ids": ["subnet-1", "subnet-2"],
        "airflow_version": "3.3.2",
        "mlflow_tracking_uri": "https://mlflow.example.com",
    },
}
# In the place of an account: Terraform asks it who it is, and no more than that for a plan.
OVERRIDE = """
provider "aws" {
  access_key                  = "any"
  secret_key                  = "any"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
}
"""


def providers() -> Path | None:
    """A folder with the AWS provider: TERRAFORM_PLUGINS, or where Terraform and packages of it look."""
    given = os.environ.get("TERRAFORM_PLUGINS")
    places = [Path(given)] if given else [*(Path(one).expanduser() for one in USUAL), *Path("/opt").glob("*")]
    return next((one for one in places if (one / PROVIDERS / "hashicorp" / "aws").is_dir()), None)


class Terraform:
    """The configuration in a folder of its own, with the provider."""

    def __init__(self, folder: Path, endpoint: str) -> None:
        shutil.copytree(ROOT / "infra", folder / "infra", ignore=shutil.ignore_patterns(".terraform*", "*.tfstate*"))
        self.folder = folder / "infra" / "terraform"
        (self.folder / "override.tf").write_text(OVERRIDE)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TF_", "AWS_"))}
        self.env = {**kept, "AWS_ENDPOINT_URL_STS": endpoint, "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1"}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["terraform", *arguments]
        return subprocess.run(command, cwd=self.folder, env=self.env, capture_output=True, text=True)

    def plan(self, **changed: Any) -> subprocess.CompletedProcess[str]:
        (self.folder / "given.tfvars.json").write_text(json.dumps({**GIVEN, **changed}))
        return self.run("plan", "-no-color", "-refresh=false", "-out=plan", "-var-file=given.tfvars.json")


@pytest.fixture(scope="module")
def terraform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terraform]:
    found = providers()
    if not shutil.which("terraform") or found is None:
        pytest.skip("no terraform, or no folder with its AWS provider: TERRAFORM_PLUGINS names one")
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    made = Terraform(tmp_path_factory.mktemp("terraform"), f"http://{host}:{port}")
    begun = made.run("init", "-backend=false", f"-plugin-dir={found}", "-no-color")
    assert begun.returncode == 0, begun.stderr
    yield made
    server.stop()


@pytest.fixture(scope="module")
def planned(terraform: Terraform) -> dict[str, list[dict[str, Any]]]:
    """Type to the values of each resource of that type."""
    return values_of(terraform)


def values_of(terraform: Terraform, **changed: Any) -> dict[str, list[dict[str, Any]]]:
    done = terraform.plan(**changed)
    assert done.returncode == 0, done.stderr
    shown = json.loads(terraform.run("show", "-json", "plan").stdout)
    found: dict[str, list[dict[str, Any]]] = {}
    for one in shown["planned_values"]["root_module"]["resources"]:
        found.setdefault(one["type"], []).append({**one.get("values", {}), "key": one.get("index")})
    return found


def test_it_is_formatted_and_valid(terraform: Terraform) -> None:
    assert terraform.run("fmt", "-check", "-recursive", "-diff").stdout == ""
    told = terraform.run("validate", "-json")
    assert json.loads(told.stdout)["valid"] is True, told.stdout


def test_a_reference_to_nothing_is_not_valid(terraform: Terraform) -> None:
    wrong = terraform.folder / "wrong.tf"
    wrong.write_text('output "wrong" {\n  value = aws_s3_bucket.none.id\n}\n')
    told = terraform.run("validate", "-json")
    wrong.unlink()
    assert json.loads(told.stdout)["valid"] is False


def test_each_bucket_has_versions_a_key_an_end_for_old_versions_and_no_public(planned: dict[str, Any]) -> None:
    names = {one["key"] for one in planned["aws_s3_bucket"]}
    assert names == {"artifacts", "lake", "source"}
    for kind in (
        "versioning",
        "server_side_encryption_configuration",
        "public_access_block",
        "policy",
        "ownership_controls",
        "lifecycle_configuration",
    ):
        assert {one["key"] for one in planned[f"aws_s3_bucket_{kind}"]} == names, kind
    for one in planned["aws_s3_bucket_versioning"]:
        assert one["versioning_configuration"][0]["status"] == "Enabled"
    for one in planned["aws_s3_bucket_server_side_encryption_configuration"]:
        (default,) = one["rule"][0]["apply_server_side_encryption_by_default"]
        assert default["sse_algorithm"] == "aws:kms"
    for one in planned["aws_s3_bucket_public_access_block"]:
        four = ("block_public_acls", "block_public_policy", "ignore_public_acls", "restrict_public_buckets")
        assert all(one[name] is True for name in four)
    for one in planned["aws_s3_bucket_lifecycle_configuration"]:
        assert one["rule"][0]["noncurrent_version_expiration"][0]["noncurrent_days"] == 30
    assert not any(one["force_destroy"] for one in planned["aws_s3_bucket"])


def test_models_and_the_lake_never_pass(planned: dict[str, Any]) -> None:
    for one in planned["aws_s3_bucket_lifecycle_configuration"]:
        passing = [rule["filter"][0]["prefix"] for rule in one["rule"] if rule.get("expiration")]
        assert one["key"] == "artifacts" or not passing
        assert {"leeway/jobs/", "leeway/code/", "dvc/", "", None}.isdisjoint(passing)


def test_keys_turn_secrets_have_no_value_and_people_are_told(planned: dict[str, Any]) -> None:
    (key,) = planned["aws_kms_key"]
    assert key["enable_key_rotation"] is True
    assert "aws_secretsmanager_secret_version" not in planned, "values would be in Terraform's state"
    assert {one["name"] for one in planned["aws_secretsmanager_secret"]} == {
        "leeway/connections/smtp_default",
        "leeway/connections/slack_default",
    }
    assert [one["endpoint"] for one in planned["aws_sns_topic_subscription"]] == ["ml@example.com"]
    assert {one["name"]: float(one["limit_amount"]) for one in planned["aws_budgets_budget"]} == {
        "acme-all": 500,
        "acme-training": 100,
    }
    assert len(planned["aws_cloudwatch_metric_alarm"]) == 2


def test_airflow_is_private_and_takes_its_connections_from_the_secrets(planned: dict[str, Any]) -> None:
    (airflow,) = planned["aws_mwaa_environment"]
    assert (airflow["webserver_access_mode"], airflow["max_workers"]) == ("PRIVATE_ONLY", 1)
    options = airflow["airflow_configuration_options"]
    assert options["secrets.backend"].endswith("SecretsManagerBackend")
    assert json.loads(options["secrets.backend_kwargs"])["connections_prefix"] == "leeway/connections"


def test_airflow_elsewhere_can_take_its_role_and_nobody_else(terraform: Terraform, planned: dict[str, Any]) -> None:
    def trusted(values: dict[str, Any]) -> dict[str, list[Any]]:
        documents = {one["key"]: json.loads(one["assume_role_policy"]) for one in values["aws_iam_role"]}
        return {name: [one["Principal"] for one in told["Statement"]] for name, told in documents.items()}

    ann = "arn:aws:iam::123456789012:user/ann"
    services = trusted(planned)
    assert services["airflow"] == [{"Service": ["airflow.amazonaws.com", "airflow-env.amazonaws.com"]}]
    with_ann = trusted(values_of(terraform, mwaa=None, assumed_by=[ann]))
    assert with_ann == {**services, "airflow": [*services["airflow"], {"AWS": [ann]}]}


def test_another_project_is_another_start_of_the_workers() -> None:
    """MWAA looks at the versions of what it names, and pipelines.tar.gz is not among them: startup.sh names it."""
    script = (ROOT / "infra" / "terraform" / "startup.sh").read_text()
    assert '--key pipelines.tar.gz --version-id "${project}"' in script
    given = (ROOT / "infra" / "terraform" / "mwaa.tf").read_text()
    assert 'aws_s3_object.dist["pipelines.tar.gz"].version_id' in given


def test_what_cannot_be_meant_is_refused_in_a_line_each(terraform: Terraform) -> None:
    wrong: dict[str, tuple[Any, str]] = {
        "account": ("12345", "An account has 12 digits"),
        "emails": ([], "nobody receives the alarms"),
        "name": ("Acme Corp", "lower-case"),
        "month_usd": (0, "greater than 0"),
        "assumed_by": (["*"], "ARNs of users and roles"),
        "mwaa": ({**GIVEN["mwaa"], "subnet_ids": ["subnet-1"]}, "exactly two subnets"),
    }
    done = terraform.plan(**{name: value for name, (value, _) in wrong.items()})
    said = " ".join(done.stderr.replace("│", " ").split())
    assert done.returncode == 1
    for name, (_, line) in wrong.items():
        assert line in said, name
