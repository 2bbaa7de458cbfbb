"""CloudWatch's metrics and alarms: percentiles and the evaluation of alarms, which moto lacks."""
