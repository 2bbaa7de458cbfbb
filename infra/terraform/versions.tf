terraform {
  required_version = ">= 1.9, < 2.0"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "5.100.0"
    }
  }
}

provider "aws" {
  region              = var.region
  allowed_account_ids = [var.account]

  default_tags {
    tags = merge({ project = "leeway" }, var.tags)
  }
}
