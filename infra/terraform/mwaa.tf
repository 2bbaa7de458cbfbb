locals {
  here = var.mwaa == null ? {} : { this = var.mwaa }
  dist = {
    "plugins.zip"      = "plugins.zip"
    "requirements.txt" = "requirements-mwaa.txt"
    "pipelines.tar.gz" = "pipelines.tar.gz"
  }
}

resource "aws_s3_object" "dist" {
  for_each    = var.mwaa == null ? {} : local.dist
  bucket      = aws_s3_bucket.all["source"].id
  key         = each.key
  source      = "${path.module}/${var.mwaa.dist}/${each.value}"
  source_hash = try(filesha256("${path.module}/${var.mwaa.dist}/${each.value}"), null)
  depends_on  = [aws_s3_bucket_versioning.all, aws_s3_bucket_server_side_encryption_configuration.all]
}

resource "aws_s3_object" "startup" {
  for_each = local.here
  bucket   = aws_s3_bucket.all["source"].id
  key      = "startup.sh"
  content = templatefile("${path.module}/startup.sh", {
    region   = var.region
    bucket   = local.buckets.artifacts
    lake     = local.buckets.lake
    source   = local.buckets.source
    project  = aws_s3_object.dist["pipelines.tar.gz"].version_id
    job_role = aws_iam_role.all["job"].arn
    mlflow   = each.value.mlflow_tracking_uri
  })
  depends_on = [aws_s3_bucket_versioning.all, aws_s3_bucket_server_side_encryption_configuration.all]
}

resource "aws_security_group" "mwaa" {
  for_each    = local.here
  name        = local.environment
  description = "Airflow: its components reach each other, and the services of AWS"
  vpc_id      = each.value.vpc_id
}

resource "aws_vpc_security_group_ingress_rule" "mwaa" {
  for_each                     = aws_security_group.mwaa
  description                  = "between components of Airflow"
  security_group_id            = each.value.id
  referenced_security_group_id = each.value.id
  ip_protocol                  = "-1"
}

resource "aws_vpc_security_group_egress_rule" "mwaa" {
  for_each          = aws_security_group.mwaa
  description       = "the services of AWS, MLflow, sources"
  security_group_id = each.value.id
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "-1"
}

resource "aws_mwaa_environment" "airflow" {
  for_each           = local.here
  name               = local.environment
  airflow_version    = each.value.airflow_version
  environment_class  = each.value.class
  execution_role_arn = aws_iam_role.all["airflow"].arn
  kms_key            = aws_kms_key.main.arn

  source_bucket_arn                = aws_s3_bucket.all["source"].arn
  dag_s3_path                      = "dags/"
  plugins_s3_path                  = aws_s3_object.dist["plugins.zip"].key
  plugins_s3_object_version        = aws_s3_object.dist["plugins.zip"].version_id
  requirements_s3_path             = aws_s3_object.dist["requirements.txt"].key
  requirements_s3_object_version   = aws_s3_object.dist["requirements.txt"].version_id
  startup_script_s3_path           = aws_s3_object.startup["this"].key
  startup_script_s3_object_version = aws_s3_object.startup["this"].version_id

  # One worker, because tasks of a run share folders of LEEWAY_HOME, and the workers of MWAA share no disk.
  min_workers           = 1
  max_workers           = 1
  webserver_access_mode = "PRIVATE_ONLY"

  airflow_configuration_options = {
    "secrets.backend" = "airflow.providers.amazon.aws.secrets.secrets_manager.SecretsManagerBackend"
    "secrets.backend_kwargs" = jsonencode({
      connections_prefix = "leeway/connections"
      variables_prefix   = null
      config_prefix      = null
    })
    "core.dags_are_paused_at_creation"    = "True"
    "scheduler.scheduler_idle_sleep_time" = "0.5"
  }

  logging_configuration {
    dag_processing_logs {
      enabled   = true
      log_level = "WARNING"
    }
    scheduler_logs {
      enabled   = true
      log_level = "WARNING"
    }
    task_logs {
      enabled   = true
      log_level = "INFO"
    }
    webserver_logs {
      enabled   = true
      log_level = "WARNING"
    }
    worker_logs {
      enabled   = true
      log_level = "WARNING"
    }
  }

  network_configuration {
    security_group_ids = [aws_security_group.mwaa["this"].id]
    subnet_ids         = each.value.subnet_ids
  }

  depends_on = [aws_iam_role_policy.all, aws_iam_role_policy.mwaa]
}
