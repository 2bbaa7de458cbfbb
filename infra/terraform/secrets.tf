# The secrets have no values here, because Terraform's state would hold them. docs/how-to/aws.md says how to set them.
resource "aws_secretsmanager_secret" "connection" {
  for_each    = var.connections
  name        = "leeway/connections/${each.value}"
  description = "Airflow connection ${each.value}"
  kms_key_id  = aws_kms_key.main.arn
}
