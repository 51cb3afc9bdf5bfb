"""Where things lie in the repository."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The repository's root."""
CACHE = Path(os.environ.get("SPECDEC_CACHE") or "~/.cache/specdec").expanduser()
"""What is fetched or built once for all checkouts: tools, images, models, the CPU engine."""
