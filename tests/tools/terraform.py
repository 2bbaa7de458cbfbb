"""Run Terraform on a copy of infra/terraform, with a local copy of the AWS provider."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROVIDERS = "registry.terraform.io"
PLUGIN_FOLDERS = ["~/.terraform.d/plugins", "/usr/local/share/terraform/plugins", "/usr/share/terraform/plugins"]
VARIABLES: dict[str, Any] = {
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
# For a plan, Terraform only asks AWS for the identity of the caller. moto answers.
OVERRIDE = """
provider "aws" {
  access_key                  = "any"
  secret_key                  = "any"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
}
"""


REASON = (
    "terraform or its AWS provider is missing: install terraform, run `terraform providers mirror FOLDER` in "
    "infra/terraform, and set TERRAFORM_PLUGINS to FOLDER"
)


def find_providers() -> Path | None:
    """Return a folder with the AWS provider: TERRAFORM_PLUGINS, or where Terraform and its packages look."""
    variable = os.environ.get("TERRAFORM_PLUGINS")
    usual = [*(Path(path).expanduser() for path in PLUGIN_FOLDERS), *Path("/opt").glob("*")]
    folders = [Path(variable)] if variable else usual
    return next((folder for folder in folders if (folder / PROVIDERS / "hashicorp" / "aws").is_dir()), None)


class Terraform:
    """A copy of the configuration, and the terraform command in it.

    Args:
        folder: folder of the copy.
        endpoint: URL that answers for STS.
        override: settings of the AWS provider.
    """

    def __init__(self, folder: Path, endpoint: str, override: str = OVERRIDE) -> None:
        shutil.copytree(ROOT / "infra", folder / "infra", ignore=shutil.ignore_patterns(".terraform*", "*.tfstate*"))
        self.folder = folder / "infra" / "terraform"
        (self.folder / "override.tf").write_text(override)
        inherited_variables = {
            name: value for name, value in os.environ.items() if not name.startswith(("TF_", "AWS_"))
        }
        self.env = {
            **inherited_variables,
            "AWS_ENDPOINT_URL_STS": endpoint,
            "CHECKPOINT_DISABLE": "1",
            "TF_IN_AUTOMATION": "1",
        }

    def init(self) -> None:
        """Initialize the copy with the local provider; skip the test on a machine that lacks it."""
        providers = find_providers()
        if not shutil.which("terraform") or providers is None:
            pytest.skip(REASON)
        result = self.run("init", "-backend=false", f"-plugin-dir={providers}", "-no-color")
        assert result.returncode == 0, result.stderr

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run terraform in the copy."""
        command = ["terraform", *arguments]
        return subprocess.run(command, cwd=self.folder, env=self.env, capture_output=True, text=True)

    def plan(self, options: Sequence[str] = ("-refresh=false",), **changes: Any) -> subprocess.CompletedProcess[str]:
        """Make a plan, with other values of some variables."""
        (self.folder / "test.tfvars.json").write_text(json.dumps({**VARIABLES, **changes}))
        return self.run("plan", "-no-color", *options, "-out=plan", "-var-file=test.tfvars.json")
