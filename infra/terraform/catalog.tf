# The steps create the tables. Terraform manages nothing of Iceberg's metadata.
resource "aws_glue_catalog_database" "leeway" {
  name         = "leeway"
  description  = "Leeway's lake: Iceberg tables."
  location_uri = "s3://${aws_s3_bucket.all["lake"].id}/lake"
}
