# The tables are made by the steps that write them: of Iceberg's metadata nothing is Terraform's.
resource "aws_glue_catalog_database" "leeway" {
  name         = "leeway"
  description  = "Leeway's lake: Iceberg tables."
  location_uri = "s3://${aws_s3_bucket.all["lake"].id}/lake"
}
