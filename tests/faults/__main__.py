"""`python -m tests.faults`: see `tests.faults.nightly`."""

import sys

from tests.faults.nightly import main

if __name__ == "__main__":  # what it starts imports this file too
    sys.exit(main())
