import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.abtest_edge.logs import FORMATS, Format, files, log_at, record, requests

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize("format", FORMATS)
def test_kill_9_leaves_readable_files_with_all_that_was_said_to_be_written(tmp_path: Path, format: Format) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.abtest_edge.writer", str(tmp_path), format],
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    )
    assert process.stdout is not None
    with process.stdout:
        said = 0
        while said < 400:
            said = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
        said = max([said, *map(int, process.stdout.read().split()[:-1])])
    cut = ""
    if format == "jsonl":
        lines = (tmp_path / "exposures.w0.jsonl").read_text().splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):
            cut = lines[-1]
            (tmp_path / "exposures.w0.jsonl").write_text("".join(lines[:-1]))
    found = requests(tmp_path, format)
    assert len(found) >= said
    assert found == [str(number) for number in range(len(found))]
    if cut:
        with pytest.raises(json.JSONDecodeError):
            json.loads(cut)
    log = log_at(tmp_path, format, keep=10_000)
    record(log, "after")
    log.close()
    assert requests(tmp_path, format)[-1] == "after"
    if format == "parquet":
        assert len(files(tmp_path)) == len(list(tmp_path.iterdir()))
