"""`python -m pipelines code`: record which version of Leeway is installed."""

from __future__ import annotations

import typer

from pipelines.cli.terminal import write_line
from pipelines.code_files import has_own_code
from pipelines.errors import SpecError
from pipelines.settings import settings
from pipelines.versioning.installed_code import write_lock_file

app = typer.Typer(no_args_is_help=True, help="Record which version of Leeway is installed.")


@app.callback()
def _keep_subcommand() -> None:
    """Keep `lock` a sub-command: typer would drop the name of a single command."""


@app.command("lock")
def lock_version() -> None:
    """Write leeway.lock: the version of the installed Leeway, and a digest of its code.

    A stage of the project's dvc.yaml runs this command. The other stages depend on the file, so DVC runs them again
    after Leeway was upgraded or changed.
    """
    if has_own_code(settings().project):
        message = f"{settings().project} has its own copy of Leeway's code, and its stages depend on these files."
        raise SpecError(message, "Only a project without a folder pipelines/ needs leeway.lock.")
    write_line(str(write_lock_file(settings().project)))
