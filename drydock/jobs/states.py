"""The states of a job, with SageMaker's names and messages for them."""

from enum import StrEnum


class Status(StrEnum):
    """The values of TrainingJobStatus, ProcessingJobStatus and TransformJobStatus, which are the same."""

    IN_PROGRESS = "InProgress"
    STOPPING = "Stopping"
    COMPLETED = "Completed"
    FAILED = "Failed"
    STOPPED = "Stopped"

    @property
    def is_final(self) -> bool:
        """Whether the job has ended, so that its status cannot change any more."""
        return self in (Status.COMPLETED, Status.FAILED, Status.STOPPED)


class Phase(StrEnum):
    """The phases of a job: the values of SecondaryStatus."""

    STARTING = "Starting"
    DOWNLOADING = "Downloading"
    TRAINING = "Training"
    INTERRUPTED = "Interrupted"
    STOPPING = "Stopping"
    UPLOADING = "Uploading"
    COMPLETED = "Completed"
    FAILED = "Failed"
    STOPPED = "Stopped"
    MAX_RUNTIME_EXCEEDED = "MaxRuntimeExceeded"
    MAX_WAIT_EXCEEDED = "MaxWaitTimeExceeded"

    @property
    def has_instances(self) -> bool:
        """Whether the job has its instances in this phase. SageMaker bills the time in such phases."""
        return self in (Phase.DOWNLOADING, Phase.TRAINING, Phase.UPLOADING)


# Each phase has its own message: some clients, such as Airflow's amazon provider, print a line if the message changes.
MESSAGES: dict[Phase, str] = {
    Phase.STARTING: "Preparing the instances for training",
    Phase.DOWNLOADING: "Downloading input data",
    Phase.TRAINING: "Training in-progress.",
    Phase.INTERRUPTED: "Job stopped because managed spot instances were interrupted",
    Phase.STOPPING: "Stopping the training job",
    Phase.UPLOADING: "Uploading generated training model",
    Phase.COMPLETED: "Training job completed",
    Phase.FAILED: "Training job failed",
    Phase.STOPPED: "Training job stopped",
    Phase.MAX_RUNTIME_EXCEEDED: "Training job runtime exceeded MaxRuntimeInSeconds provided",
    Phase.MAX_WAIT_EXCEEDED: "Training job waiting time exceeded MaxWaitTimeInSeconds provided",
}
