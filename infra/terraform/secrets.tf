# Without values: those would be in Terraform's state. docs/how-to/aws.md says how they are put in.
resource "aws_secretsmanager_secret" "connection" {
  for_each    = var.connections
  name        = "leeway/connections/${each.value}"
  description = "Airflow connection ${each.value}"
  kms_key_id  = aws_kms_key.main.arn
}
