"""The supervisor reads service.yaml alone, and imports nothing of the funnel's runtime."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from app.config.problems import ConfigError
from app.supervisor.settings import read_settings

HEAVY = ("onnxruntime", "faiss", "stages.runtime", "stages.compose", "lightgbm", "pyarrow", "scipy", "app.worker")


def test_the_supervisor_imports_nothing_heavy() -> None:
    code = f"import sys, app.cli.serve; print([one for one in {HEAVY!r} if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_other_files_are_not_read_when_service_yaml_is_good(tmp_path: Path) -> None:
    text = "version: 1\nstore: {url: '${URL:-}'}\nworkers: 3\nmemory: 1GiB\ndrain: 2s\nextensions: [not_there]\n"
    (tmp_path / "service.yaml").write_text(text)
    (tmp_path / "models.yaml").write_text("[")
    settings = read_settings(tmp_path, {"URL": "redis://h:1/0"})
    assert (settings.workers, settings.memory, settings.drain) == (3, 1 << 30, 2.0)
    assert settings.store_url == "redis://h:1/0"


def test_every_problem_of_every_file_is_told_when_service_yaml_has_one(tmp_path: Path) -> None:
    (tmp_path / "service.yaml").write_text("version: 1\nworkers: many\n")
    (tmp_path / "models.yaml").write_text("[")
    with pytest.raises(ConfigError) as error:
        read_settings(tmp_path, {})
    said = str(error.value)
    assert "service.yaml:2" in said
    assert "models.yaml:" in said
