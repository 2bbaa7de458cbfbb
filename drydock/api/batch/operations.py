"""The operations of AWS Batch that drydock answers itself."""

from collections.abc import Callable
from typing import Any

from drydock.batch.queues import BatchQueues
from drydock.batch.requests import environments, job_queues, policies, quota_shares, service_jobs, snapshot, tags
from drydock.batch.requests.submission import submit_service_job
from drydock.resources import Owner

Handler = Callable[[BatchQueues, Owner, dict[str, Any]], dict[str, Any]]
"""A function that answers the requests of one operation."""

OPERATIONS: dict[str, Handler] = {
    "CreateServiceEnvironment": environments.create_service_environment,
    "DescribeServiceEnvironments": environments.describe_service_environments,
    "UpdateServiceEnvironment": environments.update_service_environment,
    "DeleteServiceEnvironment": environments.delete_service_environment,
    "CreateSchedulingPolicy": policies.create_scheduling_policy,
    "DescribeSchedulingPolicies": policies.describe_scheduling_policies,
    "ListSchedulingPolicies": policies.list_scheduling_policies,
    "UpdateSchedulingPolicy": policies.update_scheduling_policy,
    "DeleteSchedulingPolicy": policies.delete_scheduling_policy,
    "CreateQuotaShare": quota_shares.create_quota_share,
    "DescribeQuotaShare": quota_shares.describe_quota_share,
    "ListQuotaShares": quota_shares.list_quota_shares,
    "UpdateQuotaShare": quota_shares.update_quota_share,
    "DeleteQuotaShare": quota_shares.delete_quota_share,
    "SubmitServiceJob": submit_service_job,
    "DescribeServiceJob": service_jobs.describe_service_job,
    "ListServiceJobs": service_jobs.list_service_jobs,
    "UpdateServiceJob": service_jobs.update_service_job,
    "TerminateServiceJob": service_jobs.terminate_service_job,
    "TerminateServiceJobs": service_jobs.terminate_service_jobs,
    "GetJobQueueSnapshot": snapshot.get_job_queue_snapshot,
}
SHARED_OPERATIONS: dict[str, Handler] = {
    "CreateJobQueue": job_queues.create_job_queue,
    "DescribeJobQueues": job_queues.describe_job_queues,
    "UpdateJobQueue": job_queues.update_job_queue,
    "DeleteJobQueue": job_queues.delete_job_queue,
    "TagResource": tags.tag_resource,
    "UntagResource": tags.untag_resource,
    "ListTagsForResource": tags.list_tags_for_resource,
}
"""The operations that moto answers for queues of containers, and drydock for queues for training jobs."""
TAG_OPERATIONS = {"POST": "TagResource", "DELETE": "UntagResource", "GET": "ListTagsForResource"}
"""The operations on tags, by their HTTP methods: their paths are equal."""
NAMES_BY_LOWER_CASE = {name.lower(): name for name in (*OPERATIONS, *SHARED_OPERATIONS)}
"""The names of the operations by their names in lower case, which are in the paths of requests."""
