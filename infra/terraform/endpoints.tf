# Endpoints that DeployOperator made, for those who want them in Terraform's state: docs/how-to/aws-endpoints.md.
# DeployOperator still releases versions: Terraform ignores what a release changes, and never deletes an endpoint.
locals {
  endpoint_alarms = merge([
    for endpoint, settings in var.endpoints : {
      for name, alarm in settings.alarms : "${endpoint}-${name}" => merge(alarm, { endpoint = endpoint })
    }
  ]...)
}

import {
  for_each = var.endpoints
  to       = aws_sagemaker_endpoint.adopted[each.key]
  id       = each.key
}

resource "aws_sagemaker_endpoint" "adopted" {
  for_each             = var.endpoints
  name                 = each.key
  endpoint_config_name = "DeployOperator-chooses-it"

  lifecycle {
    ignore_changes  = [endpoint_config_name, deployment_config, tags, tags_all]
    prevent_destroy = true
  }
}

# The names of these alarms begin with leeway-, so the rule in alarms.tf sends mail. They do not roll back a release.
resource "aws_cloudwatch_metric_alarm" "endpoint" {
  for_each            = local.endpoint_alarms
  alarm_name          = "leeway-${each.key}"
  alarm_description   = "Endpoint ${each.value.endpoint}: docs/how-to/runbooks/endpoint-misbehaves.md"
  namespace           = "AWS/SageMaker"
  metric_name         = each.value.metric
  dimensions          = { EndpointName = each.value.endpoint, VariantName = "AllTraffic" }
  statistic           = can(regex("^p", each.value.statistic)) ? null : each.value.statistic
  extended_statistic  = can(regex("^p", each.value.statistic)) ? each.value.statistic : null
  period              = each.value.period_s
  evaluation_periods  = each.value.periods
  comparison_operator = each.value.below ? "LessThanThreshold" : "GreaterThanThreshold"
  threshold           = each.value.threshold
  # Without requests, SageMaker publishes nothing.
  treat_missing_data = each.value.below ? "breaching" : "notBreaching"
}
