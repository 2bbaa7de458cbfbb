"""Test how the lines of a job's log file are moved to CloudWatch Logs, also by several servers after each other."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from moto.logs.models import logs_backends

from drydock.execution.job_logs import JobLogs
from drydock.execution.log_forwarder import READ_BYTES
from drydock.host.tree import HostTree
from drydock.jobs.states import Phase, Status
from drydock.jobs.training.job import TrainingJob
from drydock.logs_store import backend
from drydock.store import Store
from drydock.transfer.line_blocks import BLOCK_MAX_BYTES

GROUP = "/aws/sagemaker/TrainingJobs"
ALGORITHM = {"TrainingImage": "i", "TrainingInputMode": "File"}


@pytest.fixture(autouse=True)
def install_logs(store: Store) -> Iterator[None]:
    """Let moto's Logs use the test's store."""
    backend.install(store)
    yield
    logs_backends.clear()


@pytest.fixture
def tree(tmp_path: Path) -> HostTree:
    """Return the tree of a host, with its folder."""
    tree = HostTree(tmp_path / "jobs" / "job" / "algo-1")
    tree.create([tree.model])
    return tree


def read_events(job: TrainingJob) -> list[tuple[str, int]]:
    """Return the messages of all streams of a job, with their timestamps."""
    groups = logs_backends[job.account_id][job.region].groups
    streams = groups[GROUP].streams.values() if GROUP in groups else ()
    return [(event.message, event.timestamp) for stream in streams for event in stream.events]


def read_lines(job: TrainingJob) -> list[str]:
    return [message for message, _ in read_events(job)]


def append(tree: HostTree, data: bytes, written_s: float | None = None) -> None:
    with tree.log.open("ab") as file:
        file.write(data)
    if written_s is not None:
        os.utime(tree.log, (written_s, written_s))


def move_all(logs: JobLogs) -> None:
    """Move lines as the thread does, until nothing is left to do."""
    logs._sampled_at = 0.0
    while logs._move_round():
        logs._sampled_at = 0.0


def resume(store: Store, tree: HostTree, job: TrainingJob | None) -> JobLogs:
    """Return the logs of the next server."""
    logs = JobLogs(store)
    logs.resume(lambda _: [tree], lambda *_: job)
    return logs


def test_sends_complete_lines_only_until_the_end(store: Store, tree: HostTree, job: TrainingJob) -> None:
    logs = JobLogs(store)
    forwarders = logs.open(job, [tree])
    move_all(logs)
    for data, expected in ((b"one\ntw", ["one"]), (b"o\r\n\nthr", ["one", "two", " "])):
        append(tree, data)
        move_all(logs)
        assert read_lines(job) == expected
    logs.end(forwarders, ["drydock's words"])
    move_all(logs)
    assert read_lines(job) == ["one", "two", " ", "thr", "drydock's words"]
    assert logs.find_forwarders(job) == [] and store.query("SELECT * FROM log_files") == []
    logs.end(forwarders, ["again"])
    move_all(logs)
    assert read_lines(job)[-1] == "drydock's words"


@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_very_long_line_is_several_events(store: Store, tree: HostTree, job: TrainingJob, ending: bytes) -> None:
    line = b"x" * (READ_BYTES + 2 * BLOCK_MAX_BYTES + 5)
    logs = JobLogs(store)
    forwarders = logs.open(job, [tree])
    append(tree, line[:READ_BYTES])
    move_all(logs)
    append(tree, line[READ_BYTES:] + ending)
    logs.end(forwarders)
    move_all(logs)
    assert "".join(read_lines(job)).encode() == line and len(read_lines(job)) < 25


def test_lines_have_the_time_of_printing(store: Store, tree: HostTree, job: TrainingJob) -> None:
    logs = JobLogs(store)
    forwarders = logs.open(job, [tree])
    now = time.time() - 100
    # The file is looked at three times before a single line is moved.
    for number in range(3):
        append(tree, b"line %d\npart" % number, now + 10 * number)
        for forwarder in forwarders:
            forwarder.sample()
    append(tree, b" of the last line", now + 50)
    logs.end(forwarders)
    move_all(logs)
    times = {message: timestamp / 1000 - now for message, timestamp in read_events(job)}
    expected = {"line 0": 0, "partline 1": 10, "partline 2": 20, "part of the last line": 50}
    assert times == pytest.approx(expected, abs=0.002)


@pytest.mark.parametrize(("first_s", "second_s"), [(10, -1_000), (1e6, 0)], ids=["back", "future"])
def test_times_that_the_job_has_set_keep_the_order(
    store: Store, tree: HostTree, job: TrainingJob, first_s: float, second_s: float
) -> None:
    logs = JobLogs(store)
    logs.open(job, [tree])
    for number, offset_s in enumerate((first_s, second_s)):
        append(tree, b"line %d\n" % number, time.time() + offset_s)
        move_all(logs)
    events = read_events(job)
    assert [message for message, _ in events] == ["line 0", "line 1"]
    assert events[0][1] <= events[1][1] <= time.time() * 1000


def test_next_server_stores_each_line_once(store: Store, tree: HostTree, job: TrainingJob) -> None:
    job.enter_phase(Phase.TRAINING)
    lines = [f"{number} {'x' * 90}" for number in range(60_000)]
    logs = JobLogs(store)
    forwarders = logs.open(job, [tree])
    append(tree, "".join(f"{line}\n" for line in lines).encode())
    for _ in range(3):  # of six parts; then the server is killed
        logs._sample_if_due(forwarders)
        logs._move_round()
    assert 0 < len(read_lines(job)) < len(lines)
    next_logs = resume(store, tree, job)
    next_logs.end(next_logs.find_forwarders(job), ["the end"])
    # This server is killed, too, before it has moved anything.
    last_logs = resume(store, tree, job)
    move_all(last_logs)
    assert read_lines(job) == [*lines, "the end"] and store.query("SELECT * FROM log_files") == []


def test_next_run_waits_for_no_log(store: Store, tree: HostTree, job: TrainingJob) -> None:
    logs = JobLogs(store)
    first = logs.open(job, [tree])
    append(tree, b"first run\n")
    logs.end(first)
    forwarders = logs.open(job, [tree])
    tree.create([tree.model])
    append(tree, b"second run\n")
    logs.end(forwarders)
    # The server is killed: the next one finds both files.
    next_logs = resume(store, tree, job)
    move_all(next_logs)
    assert read_lines(job) == ["first run", "second run"]
    assert [path.name for path in tree.root.parent.glob("*.log*")] == ["algo-1.log"]


def test_log_of_an_earlier_run_is_not_read_again(store: Store, tree: HostTree, job: TrainingJob) -> None:
    logs = JobLogs(store)
    first = logs.open(job, [tree])
    append(tree, b"first run\n")
    logs.end(first)
    move_all(logs)
    forwarders = logs.open(job, [tree])
    move_all(logs)  # before the run has created its tree
    tree.create([tree.model])
    append(tree, b"second\n")
    logs.end(forwarders)
    move_all(logs)
    assert read_lines(job) == ["first run", "second"]


def test_log_of_an_earlier_run_that_was_deleted_is_not_mistaken(store: Store, tree: HostTree, job: TrainingJob) -> None:
    logs = JobLogs(store)
    first = logs.open(job, [tree])
    append(tree, b"first run\n")
    first[0].sample()
    tree.log.unlink()
    logs.end(first)
    forwarders = logs.open(job, [tree])
    append(tree, b"second\n")
    logs.end(forwarders)
    move_all(logs)
    assert read_lines(job) == ["second"]


def test_character_is_not_cut_where_the_data_ends(store: Store, tree: HostTree, job: TrainingJob) -> None:
    line = ("a" + BLOCK_MAX_BYTES * "\u00e9").encode()
    logs = JobLogs(store)
    forwarders = logs.open(job, [tree])
    append(tree, line[: 2 * BLOCK_MAX_BYTES])  # without the second byte of the last character
    move_all(logs)
    append(tree, line[2 * BLOCK_MAX_BYTES :])
    logs.end(forwarders)
    move_all(logs)
    assert "".join(read_lines(job)).encode() == line


def test_log_that_cannot_be_moved_does_not_delay_others(
    store: Store, tree: HostTree, make_job: Callable[..., TrainingJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [make_job(TrainingJobName=name) for name in ("bad", "good")]
    trees = [HostTree(tree.root.with_name(job.name)) for job in jobs]
    logs = JobLogs(store)
    (bad,), (good,) = (logs.open(job, [job_tree]) for job, job_tree in zip(jobs, trees, strict=True))
    monkeypatch.setattr(bad, "move_lines", lambda: 1 // 0)
    append(trees[1], b"line\n")
    logs.end([good])
    move_all(logs)
    assert read_lines(jobs[1]) == ["line"] and [logs.find_forwarders(job) for job in jobs] == [[], []]
    assert [row[0] for row in store.query("SELECT job FROM log_files")] == ["bad"]  # for the next server


@pytest.mark.parametrize("damage", ["unlink", "fifo", "folder", "truncate"])
def test_damaged_log_ends(store: Store, tree: HostTree, job: TrainingJob, damage: str) -> None:
    logs = JobLogs(store)
    forwarders = logs.open(job, [tree])
    append(tree, b"before\n")
    move_all(logs)
    append(tree, b"lost\n")
    forwarders[0].sample()
    if damage == "truncate":
        os.truncate(tree.log, 0)
    else:
        tree.log.unlink()
        {"unlink": str, "fifo": os.mkfifo, "folder": os.mkdir}[damage](tree.log)
    logs.end(forwarders)
    move_all(logs)
    assert read_lines(job) == ["before"] and logs.find_forwarders(job) == []


def test_reset_of_moto_ends_the_log(store: Store, tree: HostTree, job: TrainingJob) -> None:
    logs = JobLogs(store)
    logs.open(job, [tree])
    append(tree, b"line\n")
    job.discard()
    move_all(logs)
    assert read_lines(job) == [] and store.query("SELECT * FROM log_files") == []
    logs.open(job, [tree])
    assert resume(store, tree, None).find_forwarders(job) == [] and store.query("SELECT * FROM log_files") == []


def test_job_of_an_earlier_server_that_has_ended_has_its_whole_log(
    store: Store, tree: HostTree, job: TrainingJob
) -> None:
    JobLogs(store).open(job, [tree])
    append(tree, b"one\ntwo")
    job.end(Status.FAILED, Phase.FAILED, "killed")
    move_all(resume(store, tree, job))
    assert read_lines(job) == ["one", "two"]


def test_metrics_are_read_and_stored(store: Store, tree: HostTree, make_job: Callable[..., TrainingJob]) -> None:
    job = make_job(AlgorithmSpecification={**ALGORITHM, "MetricDefinitions": [{"Name": "a", "Regex": "a=(.*)"}]})
    logs = JobLogs(store)
    forwarders = logs.open(job, [tree])
    append(tree, b"a=1\nnothing\na=2", time.time() - 60)
    logs.end(forwarders)
    move_all(logs)
    (metric,) = job.describe()["FinalMetricDataList"]
    assert metric["Value"] == 2 and metric["Timestamp"].timestamp() == pytest.approx(time.time() - 60, abs=30)
    assert '"a": [2.0' in store.query("SELECT record FROM jobs")[0][0]


def test_wait_ends_with_the_log_and_not_for_a_long_one(store: Store, tree: HostTree, job: TrainingJob) -> None:
    logs: Any = JobLogs(store)
    forwarders = logs.open(job, [tree])
    append(tree, b"x" * (20 << 20))
    logs.end(forwarders)
    logs.wait(forwarders, 0.0)  # returns, though nothing moves the lines
    assert logs.find_forwarders(job) == forwarders
    logs.start()
    logs.wait(forwarders, 60.0)
    assert logs.find_forwarders(job) == []
    logs.close()
