resource "aws_sns_topic" "news" {
  name              = "${var.name}-news"
  kms_master_key_id = aws_kms_key.main.arn
}

resource "aws_sns_topic_policy" "news" {
  arn    = aws_sns_topic.news.arn
  policy = templatefile("${local.policies}/news.json", { account = var.account, topic_arn = aws_sns_topic.news.arn })
}

resource "aws_sns_topic_subscription" "mail" {
  for_each  = var.emails
  topic_arn = aws_sns_topic.news.arn
  protocol  = "email"
  endpoint  = each.value
}

# The rule covers every job, whoever started it, because Airflow itself may be down.
resource "aws_cloudwatch_event_rule" "jobs" {
  for_each    = { Training = "TrainingJobStatus", Processing = "ProcessingJobStatus", Transform = "TransformJobStatus" }
  name        = "${var.name}-${lower(each.key)}-failed"
  description = "A ${lower(each.key)} job has failed"
  event_pattern = jsonencode({
    source        = ["aws.sagemaker"]
    "detail-type" = ["SageMaker ${each.key} Job State Change"]
    detail        = { (each.value) = ["Failed"] }
  })
}

resource "aws_cloudwatch_event_target" "jobs" {
  for_each = aws_cloudwatch_event_rule.jobs
  rule     = each.value.name
  arn      = aws_sns_topic.news.arn
}

# DeployOperator creates and changes the alarms of endpoints, so the rule selects them by the prefix of their names.
resource "aws_cloudwatch_event_rule" "endpoints" {
  name        = "${var.name}-endpoint-alarm"
  description = "An alarm of an endpoint is raised: docs/how-to/runbooks/endpoint-misbehaves.md"
  event_pattern = jsonencode({
    source        = ["aws.cloudwatch"]
    "detail-type" = ["CloudWatch Alarm State Change"]
    detail        = { alarmName = [{ prefix = "leeway-" }], state = { value = ["ALARM"] } }
  })
}

resource "aws_cloudwatch_event_target" "endpoints" {
  rule = aws_cloudwatch_event_rule.endpoints.name
  arn  = aws_sns_topic.news.arn
}

resource "aws_cloudwatch_metric_alarm" "scheduler" {
  for_each            = local.here
  alarm_name          = "${var.name}-scheduler-silent"
  alarm_description   = "Airflow's scheduler has sent no heartbeat for 15 minutes: docs/how-to/runbooks/stuck-run.md"
  namespace           = "AmazonMWAA"
  metric_name         = "SchedulerHeartbeat"
  dimensions          = { Environment = local.environment, Function = "Scheduler" }
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 3
  comparison_operator = "LessThanThreshold"
  threshold           = 1
  treat_missing_data  = "breaching"
  alarm_actions       = [aws_sns_topic.news.arn]
  ok_actions          = [aws_sns_topic.news.arn]
}

resource "aws_cloudwatch_metric_alarm" "queue" {
  for_each            = local.here
  alarm_name          = "${var.name}-tasks-wait"
  alarm_description   = "Tasks have waited for a slot for an hour: docs/how-to/runbooks/stuck-run.md"
  namespace           = "AmazonMWAA"
  metric_name         = "QueuedTasks"
  dimensions          = { Environment = local.environment, Function = "Executor" }
  statistic           = "Minimum"
  period              = 300
  evaluation_periods  = 12
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = [aws_sns_topic.news.arn]
  ok_actions          = [aws_sns_topic.news.arn]
}
