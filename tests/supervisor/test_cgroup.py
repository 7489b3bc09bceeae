"""Quotas read from trees as the kernel shows them, v1 and v2."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cgroup import compute_threads, cpu_quota, default_workers, usable_cpus


def tree(root: Path, **files: str) -> Path:
    """Files by path, `__` for a slash, `_of_` for a dot."""
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_of_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("text", "quota"),
    [("200000 100000\n", 2.0), ("150000 100000\n", 1.5), ("max 100000\n", None), ("50000 100000", 0.5), ("", None)],
)
def test_v2_reads_cpu_max(tmp_path: Path, text: str, quota: float | None) -> None:
    root = tree(tmp_path, pods__a__cpu_of_max=text)
    assert cpu_quota(root, "0::/pods/a\n") == quota


def test_v2_takes_the_least_of_the_ancestors(tmp_path: Path) -> None:
    root = tree(tmp_path, pods__cpu_of_max="150000 100000", pods__a__cpu_of_max="400000 100000")
    assert cpu_quota(root, "0::/pods/a\n") == 1.5


def test_v2_in_a_namespace_reads_the_root(tmp_path: Path) -> None:
    root = tree(tmp_path, cpu_of_max="300000 100000")
    assert cpu_quota(root, "0::/\n") == 3.0
    assert cpu_quota(root, "0::/../../elsewhere\n") == 3.0


V1 = "5:memory:/docker/a\n4:cpu,cpuacct:/docker/a\n1:name=systemd:/docker/a\n"


@pytest.mark.parametrize("mount", ["cpu,cpuacct", "cpu"])
@pytest.mark.parametrize("inside", ["docker/a", ""])
def test_v1_reads_the_quota_under_either_mount_and_in_a_container(tmp_path: Path, mount: str, inside: str) -> None:
    folder = tmp_path / mount / inside
    folder.mkdir(parents=True)
    (folder / "cpu.cfs_quota_us").write_text("250000\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    assert cpu_quota(tmp_path, V1) == 2.5


def test_v1_without_a_quota_has_none(tmp_path: Path) -> None:
    root = tree(tmp_path, cpu__cpu_of_cfs_quota_us="-1\n", cpu__cpu_of_cfs_period_us="100000\n")
    assert cpu_quota(root, V1) is None


def test_both_hierarchies_at_once_bind_together(tmp_path: Path) -> None:
    root = tree(
        tmp_path, cpu__cpu_of_cfs_quota_us="400000", cpu__cpu_of_cfs_period_us="100000", cpu_of_max="100000 100000"
    )
    assert cpu_quota(root, V1 + "0::/\n") == 1.0


def test_what_cannot_be_read_is_no_quota(tmp_path: Path) -> None:
    cpus = usable_cpus(tmp_path, tmp_path / "missing")
    assert cpus >= 1
    assert cpu_quota(tmp_path, "nonsense\n0::/a\n") is None


def test_a_quota_below_the_cores_counts(tmp_path: Path) -> None:
    root = tree(tmp_path, cpu_of_max="50000 100000", cgroup="0::/\n")
    assert usable_cpus(root, root / "cgroup") == 0.5


@pytest.mark.parametrize(
    ("cpus", "workers", "threads"), [(0.5, 1, 1), (1.0, 1, 1), (2.0, 2, 1), (3.9, 3, 1), (8.0, 2, 3), (8.0, 16, 1)]
)
def test_threads_of_all_workers_stay_within_the_quota(cpus: float, workers: int, threads: int) -> None:
    assert compute_threads(cpus, workers) == threads


def test_there_is_a_worker_for_each_whole_cpu() -> None:
    assert [default_workers(cpus) for cpus in (0.5, 1.0, 1.9, 2.0, 8.0)] == [1, 1, 1, 2, 8]
