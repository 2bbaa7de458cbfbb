variable "region" {
  description = "Region of everything, as AWS names it."
  type        = string

  validation {
    condition     = can(regex("^[a-z]{2}-[a-z]+-[0-9]$", var.region))
    error_message = "A region looks like eu-west-1."
  }
}

variable "account" {
  description = "The account, 12 digits. Terraform refuses credentials of another one."
  type        = string

  validation {
    condition     = can(regex("^[0-9]{12}$", var.account))
    error_message = "An account has 12 digits."
  }
}

variable "name" {
  description = "What the names of buckets, roles and the environment begin with. Buckets have the whole world's names: take your own."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{2,29}$", var.name))
    error_message = "3 to 30 lower-case letters, digits and hyphens, the first a letter."
  }
}

variable "tags" {
  description = "More tags on everything."
  type        = map(string)
  default     = {}
}

variable "emails" {
  description = "Who is told of alarms and budgets. Each has to confirm a mail of AWS."
  type        = set(string)

  validation {
    condition     = length(var.emails) > 0 && alltrue([for one in var.emails : can(regex("^[^@ ]+@[^@ ]+$", one))])
    error_message = "At least one address: an alarm that nobody hears is none."
  }
}

variable "month_usd" {
  description = "What a month may cost in all, in US dollars. AWS tells at 80 %, at 100 %, and when it foresees 100 %."
  type        = number

  validation {
    condition     = var.month_usd > 0
    error_message = "A budget is more than 0."
  }
}

variable "training_month_usd" {
  description = "What SageMaker may cost a month, in US dollars. Leeway's own limit is params.yaml, budget.month_usd."
  type        = number

  validation {
    condition     = var.training_month_usd > 0
    error_message = "A budget is more than 0."
  }
}

variable "connections" {
  description = "Airflow connections to make a secret for. Values are put in afterwards, and never by Terraform."
  type        = set(string)
  default     = ["smtp_default", "slack_default"]

  validation {
    condition     = alltrue([for one in var.connections : can(regex("^[A-Za-z0-9_.-]+$", one))])
    error_message = "Connection ids have letters, digits, and _ . - only."
  }
}

variable "assumed_by" {
  description = "Who may take Airflow's role: ARNs of users and roles, of people or of an Airflow that is not MWAA. Without any, MWAA alone has it."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for one in var.assumed_by : can(regex("^arn:aws[a-z-]*:iam::[0-9]{12}:(user|role)/[^*]+$", one))])
    error_message = "ARNs of users and roles, as arn:aws:iam::123456789012:user/ann."
  }
}

variable "old_versions_days" {
  description = "Days that an overwritten or deleted object can be had back."
  type        = number
  default     = 30

  validation {
    condition     = var.old_versions_days >= 1
    error_message = "At least a day."
  }
}

variable "passing_days" {
  description = "Days that checkpoints, and what goes into and comes out of processing and transform jobs, stay."
  type        = number
  default     = 90

  validation {
    condition     = var.passing_days >= 30
    error_message = "At least 30: a retry, or an approval, may still need them."
  }
}

variable "destroyable" {
  description = "Whether `terraform destroy` may remove buckets that are not empty. Never true where there are data."
  type        = bool
  default     = false
}

variable "mwaa" {
  description = "The MWAA environment; null makes none, for an Airflow elsewhere. subnet_ids: two private subnets, in two zones, with a way to the services (NAT or endpoints). dist: folder with what `make mwaa` leaves."
  type = object({
    vpc_id              = string
    subnet_ids          = list(string)
    airflow_version     = string
    mlflow_tracking_uri = string
    class               = optional(string, "mw1.medium")
    dist                = optional(string, "../../dist")
  })
  default = null

  validation {
    condition     = var.mwaa == null || length(distinct(try(var.mwaa.subnet_ids, []))) == 2
    error_message = "MWAA wants exactly two subnets."
  }

  validation {
    condition     = var.mwaa == null || can(regex("^3\\.", var.mwaa.airflow_version))
    error_message = "The operators are for Airflow 3."
  }

  validation {
    condition     = var.mwaa == null || can(regex("^https://", var.mwaa.mlflow_tracking_uri))
    error_message = "MLflow is reached by https."
  }
}
