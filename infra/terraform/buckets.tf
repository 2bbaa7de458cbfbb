resource "aws_s3_bucket" "all" {
  for_each      = local.buckets
  bucket        = each.value
  force_destroy = var.destroyable
}

resource "aws_s3_bucket_versioning" "all" {
  for_each = aws_s3_bucket.all
  bucket   = each.value.id

  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_server_side_encryption_configuration" "all" {
  for_each = aws_s3_bucket.all
  bucket   = each.value.id

  rule {
    bucket_key_enabled = true

    apply_server_side_encryption_by_default {
      sse_algorithm     = "aws:kms"
      kms_master_key_id = aws_kms_key.main.arn
    }
  }
}

resource "aws_s3_bucket_public_access_block" "all" {
  for_each                = aws_s3_bucket.all
  bucket                  = each.value.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_ownership_controls" "all" {
  for_each = aws_s3_bucket.all
  bucket   = each.value.id

  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_policy" "all" {
  for_each   = aws_s3_bucket.all
  bucket     = each.value.id
  policy     = templatefile("${local.policies}/bucket.json", { bucket = each.value.id })
  depends_on = [aws_s3_bucket_public_access_block.all]
}

resource "aws_s3_bucket_lifecycle_configuration" "all" {
  for_each   = aws_s3_bucket.all
  bucket     = each.value.id
  depends_on = [aws_s3_bucket_versioning.all]

  rule {
    id     = "old-versions"
    status = "Enabled"
    filter {}

    noncurrent_version_expiration {
      noncurrent_days = var.old_versions_days
    }
    abort_incomplete_multipart_upload {
      days_after_initiation = 7
    }
  }

  # Models (leeway/jobs), code and DVC's data are kept, because the lineage of models refers to them.
  dynamic "rule" {
    for_each = each.key == "artifacts" ? ["checkpoints", "processing", "transform"] : []

    content {
      id     = "pass-${rule.value}"
      status = "Enabled"

      filter {
        prefix = "leeway/${rule.value}/"
      }
      expiration {
        days = var.passing_days
      }
    }
  }
}
