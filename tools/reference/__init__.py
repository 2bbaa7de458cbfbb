"""Generate the reference pages from the code: steps, operators, commands, settings.

The documentation's build adds the pages to the site (tools/docs_site.py), so they always match the code.
"""

from __future__ import annotations

from pathlib import Path

from tools.reference import commands, operators, settings, steps


def build_pages(root: Path) -> dict[str, str]:
    """Return the Markdown of each generated page, by its path below docs/.

    Args:
        root: folder of the project.
    """
    return {
        **steps.build_pages(),
        **operators.build_pages(root / "plugins" / "leeway"),
        "reference/commands.md": commands.build_page(root),
        "reference/settings.md": settings.build_page(root),
    }
