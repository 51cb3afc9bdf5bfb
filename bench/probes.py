"""The capability table, proven on SGLang's wheels; a failure is a version that does other than its row says."""

from __future__ import annotations

import sys

from specdec.preflight.probes.__main__ import main

sys.exit(main())
