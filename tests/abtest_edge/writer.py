"""`python -m tests.abtest_edge.writer FOLDER FORMAT`: records for ever, telling how many have reached a file."""

import sys
from pathlib import Path

from tests.abtest_edge.logs import FORMATS, log_at, record


def main() -> None:
    (format,) = (known for known in FORMATS if known == sys.argv[2])
    log = log_at(Path(sys.argv[1]), format, rotate_rows=97, rotate_bytes=30_000, keep=10_000)
    number = 0
    while True:
        for _ in range(41):
            record(log, str(number))
            number += 1
        log.flush()
        print(log.written, flush=True)


if __name__ == "__main__":
    main()
