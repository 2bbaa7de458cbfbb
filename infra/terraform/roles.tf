locals {
  trust = { for name, _ in local.roles : name => jsondecode(templatefile("${local.policies}/trust-${name}.json", { account = var.account })) }
  # Who is no service: people, and an Airflow that is not MWAA.
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

# What tasks, steps and jobs call: held against a recording of them by tests/unit/infra.
resource "aws_iam_role_policy" "all" {
  for_each = local.roles
  name     = each.key
  role     = aws_iam_role.all[each.key].name
  policy   = templatefile("${local.policies}/${each.key}.json", local.about)
}

# What MWAA itself needs of its environment's role.
resource "aws_iam_role_policy" "mwaa" {
  count  = var.mwaa == null ? 0 : 1
  name   = "mwaa"
  role   = aws_iam_role.all["airflow"].name
  policy = templatefile("${local.policies}/mwaa.json", local.about)
}
