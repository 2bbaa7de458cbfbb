locals {
  budgets = {
    all      = { usd = var.month_usd, services = [] }
    training = { usd = var.training_month_usd, services = ["Amazon SageMaker"] }
  }
}

resource "aws_budgets_budget" "month" {
  for_each     = local.budgets
  name         = "${var.name}-${each.key}"
  budget_type  = "COST"
  limit_amount = tostring(each.value.usd)
  limit_unit   = "USD"
  time_unit    = "MONTHLY"

  dynamic "cost_filter" {
    for_each = length(each.value.services) > 0 ? [each.value.services] : []

    content {
      name   = "Service"
      values = cost_filter.value
    }
  }

  dynamic "notification" {
    for_each = [["ACTUAL", 80], ["ACTUAL", 100], ["FORECASTED", 100]]

    content {
      notification_type          = notification.value[0]
      threshold                  = notification.value[1]
      threshold_type             = "PERCENTAGE"
      comparison_operator        = "GREATER_THAN"
      subscriber_email_addresses = var.emails
    }
  }
}
