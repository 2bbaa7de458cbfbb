variable "region" {
  description = "AWS region of all resources."
  type        = string

  validation {
    condition     = can(regex("^[a-z]{2}-[a-z]+-[0-9]$", var.region))
    error_message = "A region looks like eu-west-1."
  }
}

variable "account" {
  description = "AWS account id, 12 digits. Terraform refuses credentials of another account."
  type        = string

  validation {
    condition     = can(regex("^[0-9]{12}$", var.account))
    error_message = "An account has 12 digits."
  }
}

variable "name" {
  description = "Prefix of the names of buckets, roles and the environment. Names of buckets are unique worldwide, so choose your own."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{2,29}$", var.name))
    error_message = "3 to 30 lower-case letters, digits and hyphens, the first a letter."
  }
}

variable "tags" {
  description = "Further tags for all resources."
  type        = map(string)
  default     = {}
}

variable "emails" {
  description = "Mail addresses for alarms and budgets. Each recipient has to confirm a mail from AWS."
  type        = set(string)

  validation {
    condition     = length(var.emails) > 0 && alltrue([for email in var.emails : can(regex("^[^@ ]+@[^@ ]+$", email))])
    error_message = "Give at least one mail address, or nobody receives the alarms."
  }
}

variable "month_usd" {
  description = "Budget of all resources for a month, in US dollars. AWS sends a mail at 80 %, at 100 %, and when it forecasts 100 %."
  type        = number

  validation {
    condition     = var.month_usd > 0
    error_message = "A budget must be greater than 0."
  }
}

variable "training_month_usd" {
  description = "Budget of SageMaker for a month, in US dollars. Leeway's own limit is budget.month_usd in params.yaml."
  type        = number

  validation {
    condition     = var.training_month_usd > 0
    error_message = "A budget must be greater than 0."
  }
}

variable "connections" {
  description = "Ids of Airflow connections that get a secret. Set the values afterwards; Terraform never holds them."
  type        = set(string)
  default     = ["smtp_default", "slack_default"]

  validation {
    condition     = alltrue([for id in var.connections : can(regex("^[A-Za-z0-9_.-]+$", id))])
    error_message = "A connection id may have only letters, digits, and _ . -"
  }
}

variable "assumed_by" {
  description = "ARNs of users and roles that may assume Airflow's role: people, or an Airflow that is not MWAA. Empty: only MWAA."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for arn in var.assumed_by : can(regex("^arn:aws[a-z-]*:iam::[0-9]{12}:(user|role)/[^*]+$", arn))])
    error_message = "Give ARNs of users and roles, such as arn:aws:iam::123456789012:user/ann."
  }
}

variable "old_versions_days" {
  description = "Days during which an overwritten or deleted object can be recovered."
  type        = number
  default     = 30

  validation {
    condition     = var.old_versions_days >= 1
    error_message = "Must be at least 1 day."
  }
}

variable "passing_days" {
  description = "Days that checkpoints, and inputs and outputs of processing and transform jobs, are kept."
  type        = number
  default     = 90

  validation {
    condition     = var.passing_days >= 30
    error_message = "Must be at least 30 days: a retry or an approval may still need the objects."
  }
}

variable "destroyable" {
  description = "Whether `terraform destroy` may remove buckets that are not empty. Never set it where data must be kept."
  type        = bool
  default     = false
}

variable "scaling" {
  description = "Endpoints whose number of instances follows the load, by name. They must exist. Give requests_a_minute (of one instance) or, for an asynchronous endpoint, backlog (waiting requests for each instance). cooldown_s: seconds between two changes."
  type = map(object({
    min               = optional(number, 1)
    max               = number
    requests_a_minute = optional(number)
    backlog           = optional(number)
    cooldown_s        = optional(number, 300)
  }))
  default = {}

  validation {
    condition     = alltrue([for endpoint in values(var.scaling) : (endpoint.requests_a_minute == null) != (endpoint.backlog == null)])
    error_message = "Give each endpoint requests_a_minute or, if it is asynchronous, backlog."
  }

  validation {
    condition     = alltrue([for endpoint in values(var.scaling) : endpoint.max >= 1 && endpoint.min >= 0 && endpoint.min <= endpoint.max])
    error_message = "min must be 0 to max, and max at least 1."
  }

  validation {
    condition     = alltrue([for endpoint in values(var.scaling) : endpoint.min >= 1 || endpoint.backlog != null])
    error_message = "Only an asynchronous endpoint, with backlog, may have min = 0: others fail without an instance."
  }
}

variable "endpoints" {
  description = "Endpoints that DeployOperator created, by name, to add to Terraform's state; each with alarms of your own: a metric of AWS/SageMaker, its statistic (Sum, Average, p99), and the bound in the metric's unit."
  type = map(object({
    alarms = optional(map(object({
      metric    = string
      statistic = string
      threshold = number
      below     = optional(bool, false)
      period_s  = optional(number, 300)
      periods   = optional(number, 3)
    })), {})
  }))
  default = {}

  validation {
    condition = alltrue([
      for endpoint in values(var.endpoints) : length(setintersection(keys(endpoint.alarms), ["errors", "error-count", "latency"])) == 0
    ])
    error_message = "DeployOperator makes the alarms errors, error-count and latency itself: give yours other names."
  }
}

variable "mwaa" {
  description = "The MWAA environment; null where Airflow runs elsewhere. subnet_ids: two private subnets in two zones that reach the services (NAT or endpoints). dist: folder that `make mwaa` writes."
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
    error_message = "MWAA needs exactly two subnets."
  }

  validation {
    condition     = var.mwaa == null || can(regex("^3\\.", var.mwaa.airflow_version))
    error_message = "The operators need Airflow 3."
  }

  validation {
    condition     = var.mwaa == null || can(regex("^https://", var.mwaa.mlflow_tracking_uri))
    error_message = "mlflow_tracking_uri must begin with https://."
  }
}
