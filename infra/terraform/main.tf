locals {
  policies = "${path.module}/../policies"
  buckets = {
    artifacts = "${var.name}-artifacts" # LEEWAY_BUCKET: channels, code, checkpoints, models, DVC's data
    lake      = "${var.name}-lake"      # Iceberg tables
    source    = "${var.name}-source"    # files for MWAA: DAGs, plugins, requirements
  }
  roles       = { airflow = "${var.name}-airflow", job = "${var.name}-job" }
  environment = "${var.name}-airflow"

  # The values of the variables in infra/policies/.
  about = {
    account      = var.account
    region       = var.region
    bucket       = local.buckets.artifacts
    lake         = local.buckets.lake
    source       = local.buckets.source
    environment  = local.environment
    key_arn      = aws_kms_key.main.arn
    job_role_arn = "arn:aws:iam::${var.account}:role/${local.roles.job}"
  }
}

resource "aws_kms_key" "main" {
  description             = "${var.name}: buckets, secrets, logs, news"
  enable_key_rotation     = true
  deletion_window_in_days = 30
  policy                  = templatefile("${local.policies}/key.json", { account = var.account, region = var.region })
}

resource "aws_kms_alias" "main" {
  name          = "alias/${var.name}"
  target_key_id = aws_kms_key.main.key_id
}
