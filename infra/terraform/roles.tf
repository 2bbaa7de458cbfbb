locals {
  trust = { for name, _ in local.roles : name => jsondecode(templatefile("${local.policies}/trust-${name}.json", { account = var.account })) }
  # Principals that are not services: people, and an Airflow that is not MWAA.
  people = length(var.assumed_by) == 0 ? [] : [{
    Sid       = "People"
    Effect    = "Allow"
    Principal = { AWS = sort(var.assumed_by) }
    Action    = ["sts:AssumeRole"]
  }]
}

resource "aws_iam_role" "all" {
  for_each = local.roles
  name     = each.value
  assume_role_policy = jsonencode({
    Version   = local.trust[each.key].Version
    Statement = concat(local.trust[each.key].Statement, each.key == "airflow" ? local.people : [])
  })
}

# The permissions of tasks, steps and jobs. tests/unit/infra compares them with recorded calls.
resource "aws_iam_role_policy" "all" {
  for_each = local.roles
  name     = each.key
  role     = aws_iam_role.all[each.key].name
  policy   = templatefile("${local.policies}/${each.key}.json", local.about)
}

# The permission of clients that call endpoints. Attach it to their roles.
resource "aws_iam_policy" "invoke" {
  name        = "${var.name}-invoke"
  description = "Call the endpoints of Leeway."
  policy      = templatefile("${local.policies}/invoke.json", local.about)
}

# The permissions that MWAA itself needs in the role of its environment.
resource "aws_iam_role_policy" "mwaa" {
  count  = var.mwaa == null ? 0 : 1
  name   = "mwaa"
  role   = aws_iam_role.all["airflow"].name
  policy = templatefile("${local.policies}/mwaa.json", local.about)
}
