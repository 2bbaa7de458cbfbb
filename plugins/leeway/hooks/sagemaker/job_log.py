"""A job's own log: its new lines while it runs, and what it says about checkpoints."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from leeway.hooks.sagemaker.aws_errors import Outage, code_of, line, passes
from leeway.hooks.sagemaker.named_jobs import Kind
from leeway.hooks.step.hook import Logger

LINES_A_WAKE = 2_000
"""Most lines of one host that are shown at once."""
LINE_CHARS = 2_000
"""Most characters of a line that are shown."""
PAGES_A_WAKE = 5
"""Most pages, of at most 10,000 lines, that are read of one host at once."""
LAST_LINES = 100
"""Lines from the end of a log that was too long to show: the reason of a failure stands there."""


class JobLog:
    """Shows the lines of a job as they come, host after host; bounded, whatever the script prints.

    Args:
        job_name: the job.
        log: where the lines are shown.
        kind: of the job.
    """

    def __init__(self, job_name: str, log: Logger, kind: Kind = "training") -> None:
        self.job_name, self.log = job_name, log
        self.group = f"/aws/sagemaker/{kind.capitalize()}Jobs"
        self._tokens: dict[str, str] = {}
        self._outage = Outage(log, "the job's log")
        self._refused = False
        self._cut: set[str] = set()

    async def show(self, logs: Any, *, final: bool = False) -> None:
        """The new lines are shown. Never fails: a log that cannot be read must not cost the result.

        Args:
            logs: an aiobotocore client of CloudWatch Logs.
            final: the job ended: of what is left, the end is shown.
        """
        if self._refused:
            return
        try:
            for stream in await self._streams(logs):
                await self._show(logs, stream, final)
            self._outage.is_over()
        except Exception as error:
            self._tell(error)

    def _tell(self, error: Exception) -> None:
        if isinstance(error, ClientError) and code_of(error) == "ResourceNotFoundException":
            return  # nothing is written yet
        if passes(error):
            self._outage.goes_on(error)
            return
        self._refused = True
        self.log.warning("the job's log cannot be read: %s", line(error))

    async def _streams(self, logs: Any) -> list[str]:
        asked = {"logGroupName": self.group, "logStreamNamePrefix": f"{self.job_name}/"}
        return [one["logStreamName"] for one in (await logs.describe_log_streams(**asked))["logStreams"]]

    async def _show(self, logs: Any, stream: str, final: bool) -> None:
        """New lines of one host."""
        shown = left = 0
        more = True
        for _ in range(PAGES_A_WAKE):
            messages, more = await self._page(logs, stream)
            taken = messages[: LINES_A_WAKE - shown]
            self._tell_lines(stream, taken)
            shown, left = shown + len(taken), left + len(messages) - len(taken)
            if not more:
                break
        if left or (final and more):
            self.log.info("... %d%s more lines in CloudWatch: %s %s", left, " or" if more else "", self.group, stream)
            self._cut.add(stream)
        elif shown:
            self._cut.discard(stream)
        if final and stream in self._cut:  # by this look, or by the one before it and nothing came since
            self._tell_lines(stream, await self._end(logs, stream))

    async def _page(self, logs: Any, stream: str) -> tuple[list[str], bool]:
        """The next lines, and whether there may be more."""
        token = self._tokens.get(stream)
        asked = {"nextToken": token} if token else {}
        page = await logs.get_log_events(logGroupName=self.group, logStreamName=stream, startFromHead=True, **asked)
        self._tokens[stream] = page["nextForwardToken"]
        # CloudWatch gives the token back where there is nothing after it.
        return [one["message"] for one in page["events"]], page["nextForwardToken"] != token

    async def _end(self, logs: Any, stream: str) -> list[str]:
        asked = {"logGroupName": self.group, "logStreamName": stream, "limit": LAST_LINES}
        return [one["message"] for one in (await logs.get_log_events(startFromHead=False, **asked))["events"]]

    def _tell_lines(self, stream: str, messages: list[str]) -> None:
        host = stream.removeprefix(f"{self.job_name}/").rpartition("-")[0]
        for message in messages:
            self.log.info("%s | %s", host, message.rstrip()[:LINE_CHARS])
