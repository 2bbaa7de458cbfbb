output "environment" {
  description = "Environment variables for Airflow's workers and for users. .env.example has the whole list."
  value = {
    AWS_DEFAULT_REGION                   = var.region
    LEEWAY_BUCKET                        = aws_s3_bucket.all["artifacts"].id
    LEEWAY_ROLE_ARN                      = aws_iam_role.all["job"].arn
    LEEWAY_DVC_REMOTE                    = "s3://${aws_s3_bucket.all["artifacts"].id}/dvc"
    PYICEBERG_CATALOG__LEEWAY__TYPE      = "glue"
    PYICEBERG_CATALOG__LEEWAY__WAREHOUSE = aws_glue_catalog_database.leeway.location_uri
  }
}

output "airflow_role_arn" {
  description = "Role of Airflow's tasks. MWAA has it. Another Airflow assumes it through the connection aws_default."
  value       = aws_iam_role.all["airflow"].arn
}

output "invoke_policy_arn" {
  description = "Policy for the roles of clients that call endpoints."
  value       = aws_iam_policy.invoke.arn
}

output "source_bucket" {
  description = "Bucket from which MWAA reads the DAGs: `aws s3 sync dags s3://.../dags`."
  value       = aws_s3_bucket.all["source"].id
}

output "webserver_url" {
  description = "URL of Airflow's UI; null without MWAA."
  value       = one([for environment in aws_mwaa_environment.airflow : "https://${environment.webserver_url}"])
}

output "secrets" {
  description = "Secrets that are to hold the connections."
  value       = [for secret in aws_secretsmanager_secret.connection : secret.name]
}
