"""`python -m perf.load`: `recserve loadtest` for a checkout, with the same options."""

import sys

from app.cli import main

if __name__ == "__main__":
    sys.exit(main(["loadtest", *sys.argv[1:]]))
