"""Fill the cache of real model servers: `python tests/runtimes/prepare.py [--tiny] [--demo]`, both by default."""

import sys
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.runtimes.inventory import main, prepare

__all__ = ["main", "prepare"]

if __name__ == "__main__":
    sys.exit(main())
