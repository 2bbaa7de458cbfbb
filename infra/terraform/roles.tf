resource "aws_iam_role" "all" {
  for_each           = local.roles
  name               = each.value
  assume_role_policy = templatefile("${local.policies}/trust-${each.key}.json", { account = var.account })
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
