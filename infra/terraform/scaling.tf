# The number of instances of endpoints that exist: docs/how-to/aws-endpoints.md. Terraform does not make endpoints.
locals {
  # Endpoints that may have no instance. They must be asynchronous: their requests wait, and other requests would fail.
  sleepers = { for name, endpoint in var.scaling : name => endpoint if endpoint.min == 0 }
}

resource "aws_appautoscaling_target" "endpoint" {
  for_each           = var.scaling
  service_namespace  = "sagemaker"
  scalable_dimension = "sagemaker:variant:DesiredInstanceCount"
  resource_id        = "endpoint/${each.key}/variant/AllTraffic"
  min_capacity       = each.value.min
  max_capacity       = each.value.max
}

resource "aws_appautoscaling_policy" "load" {
  for_each           = aws_appautoscaling_target.endpoint
  name               = "load"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = each.value.service_namespace
  scalable_dimension = each.value.scalable_dimension
  resource_id        = each.value.resource_id

  target_tracking_scaling_policy_configuration {
    target_value       = coalesce(var.scaling[each.key].requests_a_minute, var.scaling[each.key].backlog)
    scale_in_cooldown  = var.scaling[each.key].cooldown_s
    scale_out_cooldown = var.scaling[each.key].cooldown_s

    dynamic "predefined_metric_specification" {
      for_each = var.scaling[each.key].requests_a_minute == null ? [] : ["SageMakerVariantInvocationsPerInstance"]

      content {
        predefined_metric_type = predefined_metric_specification.value
      }
    }

    dynamic "customized_metric_specification" {
      for_each = var.scaling[each.key].backlog == null ? [] : ["ApproximateBacklogSizePerInstance"]

      content {
        namespace   = "AWS/SageMaker"
        metric_name = customized_metric_specification.value
        statistic   = "Average"

        dimensions {
          name  = "EndpointName"
          value = each.key
        }
      }
    }
  }
}

# The policy above cannot start the first instance: without instances, there is no backlog per instance.
resource "aws_appautoscaling_policy" "first" {
  for_each           = local.sleepers
  name               = "first-instance"
  policy_type        = "StepScaling"
  service_namespace  = aws_appautoscaling_target.endpoint[each.key].service_namespace
  scalable_dimension = aws_appautoscaling_target.endpoint[each.key].scalable_dimension
  resource_id        = aws_appautoscaling_target.endpoint[each.key].resource_id

  step_scaling_policy_configuration {
    adjustment_type         = "ChangeInCapacity"
    metric_aggregation_type = "Average"
    cooldown                = each.value.cooldown_s

    step_adjustment {
      metric_interval_lower_bound = 0
      scaling_adjustment          = 1
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "first" {
  for_each            = local.sleepers
  alarm_name          = "${var.name}-${each.key}-requests-wait"
  alarm_description   = "Requests wait, and the endpoint has no instance: the policy first-instance starts one"
  namespace           = "AWS/SageMaker"
  metric_name         = "HasBacklogWithoutCapacity"
  dimensions          = { EndpointName = each.key }
  statistic           = "Average"
  period              = 60
  evaluation_periods  = 2
  datapoints_to_alarm = 2
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 1
  treat_missing_data  = "missing"
  alarm_actions       = [aws_appautoscaling_policy.first[each.key].arn]
}
