"""Test queues without a scheduling policy, and the capacity of service environments."""

from drydock.batch.scheduling.fifo import plan_fifo
from drydock.batch.scheduling.plans import NUM_INSTANCES, Capacity, QueueJob, can_ever_run

TYPE = "ml.m5.large"


def create_job(number: int, instances: int = 1, priority: int = 0, instance_type: str = TYPE) -> QueueJob:
    """Return a job that waits."""
    return QueueJob(f"job-{number}", number, instance_type, instances, priority=priority)


def list_starts(jobs: list[QueueJob], *capacities: Capacity) -> list[tuple[str, str]]:
    """Return the ids of the jobs that start, and their environments."""
    return [(start.job.id, start.environment) for start in plan_fifo(jobs, capacities).starts]


def test_jobs_start_in_the_order_of_their_submission_whatever_their_priority() -> None:
    jobs = [create_job(3, priority=9), create_job(1), create_job(2, priority=99)]
    assert list_starts(jobs, Capacity("a", {NUM_INSTANCES: 2})) == [("job-1", "a"), ("job-2", "a")]


def test_a_job_without_room_blocks_the_jobs_behind_it() -> None:
    # The example of AWS's documentation: five jobs of ten instances fill an environment of 50.
    jobs = [*(create_job(number, 10) for number in range(6)), create_job(6, 1)]
    capacity = Capacity("a", {NUM_INSTANCES: 50})
    assert len(list_starts(jobs, capacity)) == 5 and capacity.get_free_instances(TYPE) == 0


def test_environments_are_tried_in_their_order_and_a_disabled_one_gets_no_job() -> None:
    jobs = [create_job(1, 2), create_job(2, 1), create_job(3, 1)]
    capacities = Capacity("off", {NUM_INSTANCES: 9}, False), Capacity("a", {NUM_INSTANCES: 2}), Capacity("b", {TYPE: 5})
    assert list_starts(jobs, *capacities) == [("job-1", "a"), ("job-2", "b"), ("job-3", "b")]


def test_a_limit_of_an_instance_type_is_for_this_type_only() -> None:
    capacity = Capacity("a", {TYPE: 2})
    assert can_ever_run(create_job(1, 2), [capacity]) and not can_ever_run(create_job(1, 3), [capacity])
    other = create_job(2, instance_type="ml.g5.xlarge")
    assert not can_ever_run(other, [capacity]) and list_starts([other, create_job(3)], capacity) == []
