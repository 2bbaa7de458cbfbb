"""Copy the lines of a job's log from CloudWatch to the task's log."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from leeway.hooks.sagemaker.aws_errors import Outage, format_error_line, get_error_code, is_transient
from leeway.hooks.sagemaker.named_jobs import Kind
from leeway.hooks.step.hook import Logger

LINES_PER_CHECK = 2_000
"""Largest number of new lines of one host that one call of `show_new_lines` shows, without the `LAST_LINES`."""
LINE_CHARS = 2_000
"""Largest number of characters of a line that are shown."""
PAGES_PER_CHECK = 5
"""Largest number of pages, of at most 10,000 lines each, that one call of `show_new_lines` reads of one host."""
LAST_LINES = 100
"""Number of last lines that are shown at the end if lines were omitted: they have the reason of a failure."""


class JobLog:
    """Copy the new lines of a job's log to the task's log, host by host. One call copies a limited number of lines.

    Args:
        job_name: name of the job.
        log: log of the task, where the lines are shown.
        kind: kind of the job.
    """

    def __init__(self, job_name: str, log: Logger, kind: Kind = "training") -> None:
        self.job_name, self.log = job_name, log
        self.group = f"/aws/sagemaker/{kind.capitalize()}Jobs"
        self._tokens: dict[str, str] = {}
        """Token of the next page, by stream. Each host has a stream."""
        self._outage = Outage(log, "the job's log")
        self._is_unreadable = False
        """Whether a request for the log failed although AWS answered. If so, no more requests are sent."""
        self._truncated_streams: set[str] = set()
        """Streams whose latest lines were not shown, because there were too many."""

    async def show_new_lines(self, logs_client: Any, *, is_final: bool = False) -> None:
        """Show the lines that are new. Never raises: the task must not fail because the log cannot be read.

        Args:
            logs_client: an aiobotocore client of CloudWatch Logs.
            is_final: whether the job has ended. If so, the last lines are also shown, if lines were omitted.
        """
        if self._is_unreadable:
            return
        try:
            for stream in await self._list_streams(logs_client):
                await self._show_stream(logs_client, stream, is_final)
            self._outage.record_response()
        except Exception as error:
            self._log_error(error)

    def _log_error(self, error: Exception) -> None:
        if isinstance(error, ClientError) and get_error_code(error) == "ResourceNotFoundException":
            return  # the job has not written a line yet
        if is_transient(error):
            self._outage.record_failure(error)
            return
        self._is_unreadable = True
        self.log.warning("the job's log cannot be read: %s", format_error_line(error))

    async def _list_streams(self, logs_client: Any) -> list[str]:
        request = {"logGroupName": self.group, "logStreamNamePrefix": f"{self.job_name}/"}
        return [stream["logStreamName"] for stream in (await logs_client.describe_log_streams(**request))["logStreams"]]

    async def _show_stream(self, logs_client: Any, stream: str, is_final: bool) -> None:
        """Show the new lines of one host."""
        shown_count = omitted_count = 0
        has_more = True
        for _ in range(PAGES_PER_CHECK):
            lines, has_more = await self._read_page(logs_client, stream)
            shown_lines = lines[: LINES_PER_CHECK - shown_count]
            self._log_lines(stream, shown_lines)
            shown_count, omitted_count = shown_count + len(shown_lines), omitted_count + len(lines) - len(shown_lines)
            if not has_more:
                break
        if omitted_count or (is_final and has_more):
            at_least = "at least " if has_more else ""
            self.log.info("... %s%d more lines in CloudWatch: %s %s", at_least, omitted_count, self.group, stream)
            self._truncated_streams.add(stream)
        elif shown_count:
            self._truncated_streams.discard(stream)
        # The stream may be in the set although this check read no line: an earlier check omitted the last lines.
        if is_final and stream in self._truncated_streams:
            self._log_lines(stream, await self._read_last_lines(logs_client, stream))

    async def _read_page(self, logs_client: Any, stream: str) -> tuple[list[str], bool]:
        """Return the next lines of one host, and whether there may be more."""
        token = self._tokens.get(stream)
        next_token = {"nextToken": token} if token else {}
        page = await logs_client.get_log_events(
            logGroupName=self.group, logStreamName=stream, startFromHead=True, **next_token
        )
        self._tokens[stream] = page["nextForwardToken"]
        # At the end of the stream, CloudWatch returns the token of the request again.
        return [event["message"] for event in page["events"]], page["nextForwardToken"] != token

    async def _read_last_lines(self, logs_client: Any, stream: str) -> list[str]:
        request = {"logGroupName": self.group, "logStreamName": stream, "limit": LAST_LINES}
        page = await logs_client.get_log_events(startFromHead=False, **request)
        return [event["message"] for event in page["events"]]

    def _log_lines(self, stream: str, lines: list[str]) -> None:
        host = stream.removeprefix(f"{self.job_name}/").rpartition("-")[0]
        for line in lines:
            self.log.info("%s | %s", host, line.rstrip()[:LINE_CHARS])
