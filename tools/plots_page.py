"""Build .dvc/plots.html, the template of the page that `dvc plots show` writes. The page works without a network.

DVC's own template loads the library Vega from a server. This one contains Vega: `python tools/plots_page.py` downloads
Vega from npm, and writes the template again.
"""

import io
import subprocess
import tarfile
import tempfile
from pathlib import Path

PAGE = Path(__file__).parents[1] / ".dvc/plots.html"
PACKAGES = {"vega": "5.33.1", "vega-lite": "5.23.0", "vega-embed": "6.29.0"}
"""npm packages and their versions: the last releases of the major versions that DVC 3's own template loads."""
HEAD = """<!DOCTYPE html>
<html>
<head>
    {refresh_tag}
    <meta charset="utf-8">
    <title>DVC Plot</title>
    <!-- Written by tools/plots_page.py. Vega is licensed under BSD-3-Clause,
         copyright (c) 2015, University of Washington Interactive Data Lab. -->
"""
BODY = """    <style>table {border-spacing: 15px;}</style>
</head>
<body>
    {plot_divs}
</body>
</html>
"""


def download_script(name: str, version: str) -> str:
    """Download a package from npm, and return its minified script."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", f"{name}@{version}"], cwd=folder, check=True, capture_output=True)
        archive = (Path(folder) / f"{name}-{version}.tgz").read_bytes()
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        file = files.extractfile(f"package/build/{name}.min.js")
        assert file is not None
        return file.read().decode()


def main() -> None:
    """Write the template."""
    scripts = [f"    <script>{download_script(name, version)}</script>\n" for name, version in PACKAGES.items()]
    PAGE.write_text("".join([HEAD, *scripts, BODY]), encoding="utf-8")


if __name__ == "__main__":
    main()
