"""Show the lines of a job's own log in the task's log."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from leeway.hooks.sagemaker.aws_errors import Outage, format_error_line, get_error_code, is_transient
from leeway.hooks.sagemaker.named_jobs import Kind
from leeway.hooks.step.hook import Logger

LINES_PER_CHECK = 2_000
"""Most lines of one host that are shown at once."""
LINE_CHARS = 2_000
"""Most characters of a line that are shown."""
PAGES_PER_CHECK = 5
"""Most pages, of at most 10,000 lines, that are read of one host at once."""
LAST_LINES = 100
"""Lines that are shown from the end of a log that was too long: the reason of a failure is there."""


class JobLog:
    """Show the lines of a job as they come, host by host; a limited number, whatever the script prints.

    Args:
        job_name: name of the job.
        log: log of the task, where the lines are shown.
        kind: kind of the job.
    """

    def __init__(self, job_name: str, log: Logger, kind: Kind = "training") -> None:
        self.job_name, self.log = job_name, log
        self.group = f"/aws/sagemaker/{kind.capitalize()}Jobs"
        self._tokens: dict[str, str] = {}
        self._outage = Outage(log, "the job's log")
        self._refused = False
        self._truncated: set[str] = set()

    async def show_new_lines(self, logs: Any, *, final: bool = False) -> None:
        """Show the lines that are new. Never fails: a log that cannot be read must not cost the job's result.

        Args:
            logs: an aiobotocore client of CloudWatch Logs.
            final: whether the job ended; then the end of a log that was too long is shown.
        """
        if self._refused:
            return
        try:
            for stream in await self._list_streams(logs):
                await self._show_stream(logs, stream, final)
            self._outage.end()
        except Exception as error:
            self._report(error)

    def _report(self, error: Exception) -> None:
        if isinstance(error, ClientError) and get_error_code(error) == "ResourceNotFoundException":
            return  # nothing is written yet
        if is_transient(error):
            self._outage.compute_delay_s(error)
            return
        self._refused = True
        self.log.warning("the job's log cannot be read: %s", format_error_line(error))

    async def _list_streams(self, logs: Any) -> list[str]:
        request = {"logGroupName": self.group, "logStreamNamePrefix": f"{self.job_name}/"}
        return [stream["logStreamName"] for stream in (await logs.describe_log_streams(**request))["logStreams"]]

    async def _show_stream(self, logs: Any, stream: str, final: bool) -> None:
        """Show the new lines of one host."""
        shown = left = 0
        more = True
        for _ in range(PAGES_PER_CHECK):
            messages, more = await self._read_page(logs, stream)
            page = messages[: LINES_PER_CHECK - shown]
            self._log_lines(stream, page)
            shown, left = shown + len(page), left + len(messages) - len(page)
            if not more:
                break
        if left or (final and more):
            self.log.info("... %d%s more lines in CloudWatch: %s %s", left, " or" if more else "", self.group, stream)
            self._truncated.add(stream)
        elif shown:
            self._truncated.discard(stream)
        if final and stream in self._truncated:  # now, or at the check before it if nothing came since
            self._log_lines(stream, await self._read_end(logs, stream))

    async def _read_page(self, logs: Any, stream: str) -> tuple[list[str], bool]:
        """Return the next lines, and whether there may be more."""
        token = self._tokens.get(stream)
        next_token = {"nextToken": token} if token else {}
        page = await logs.get_log_events(
            logGroupName=self.group, logStreamName=stream, startFromHead=True, **next_token
        )
        self._tokens[stream] = page["nextForwardToken"]
        # CloudWatch returns the same token if there is nothing after it.
        return [event["message"] for event in page["events"]], page["nextForwardToken"] != token

    async def _read_end(self, logs: Any, stream: str) -> list[str]:
        request = {"logGroupName": self.group, "logStreamName": stream, "limit": LAST_LINES}
        page = await logs.get_log_events(startFromHead=False, **request)
        return [event["message"] for event in page["events"]]

    def _log_lines(self, stream: str, messages: list[str]) -> None:
        host = stream.removeprefix(f"{self.job_name}/").rpartition("-")[0]
        for message in messages:
            self.log.info("%s | %s", host, message.rstrip()[:LINE_CHARS])
