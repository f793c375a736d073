"""Sources of other packages, from the registry, whose own tests are run."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path


def sources(name: str, version: str = "") -> Path:
    """Fetches the sources of a package into the current folder, and unpacks them; returns their folder."""
    # Only its own sources: its build dependencies need not be built.
    fetch = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", name, name + version]
    subprocess.run(fetch, check=True)
    with tarfile.open(next(Path().glob("*.tar.gz"))) as archive:
        # Python 3.11.4 is the first with filters.
        if hasattr(tarfile, "data_filter"):
            archive.extractall(filter="data")
        else:
            archive.extractall()
    return next(path for path in Path().iterdir() if path.is_dir())
