"""Limits of control groups, read from folders such as Linux has them."""

import psutil
import pytest

from pairloom.pipeline import process_memory

GIB = 2**30


def group(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("_", ".", 1)).write_text(f"{content}\n")


def version_2(folder, limit, usage, cache=0):
    group(
        folder, memory_max=limit, memory_current=usage, memory_stat=f"anon 5\ninactive_file {cache}\nslab 7"
    )


def version_1(folder, limit, usage, cache=0):
    stat = f"inactive_file 3\ntotal_inactive_file {cache}"
    group(folder, memory_limit_in_bytes=limit, memory_usage_in_bytes=usage, memory_stat=stat)


@pytest.fixture
def of_process(tmp_path, monkeypatch):
    """Says in which groups the process is, below `tmp_path / "groups"`."""
    monkeypatch.setattr(process_memory, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(process_memory, "_OF_PROCESS", tmp_path / "cgroup")
    process_memory._limits.cache_clear()
    yield lambda *lines: (tmp_path / "cgroup").write_text("".join(f"{line}\n" for line in lines))
    process_memory._limits.cache_clear()


def test_a_container_sees_its_limit_at_the_root(tmp_path, of_process):
    of_process("0::/")
    version_2(tmp_path / "groups", GIB, GIB // 2, cache=GIB // 8)
    assert process_memory.total_bytes() == GIB
    assert process_memory.available_bytes() == GIB // 2 + GIB // 8


def test_the_group_around_a_job_step_limits_it(tmp_path, of_process):
    of_process("12:cpuset:/", "4:cpu,memory:/slurm/job_7/step_0", "0::/")
    version_1(tmp_path / "groups" / "memory" / "slurm" / "job_7" / "step_0", 2**63 - 4096, GIB // 4)
    version_1(tmp_path / "groups" / "memory" / "slurm" / "job_7", GIB, GIB // 4)
    assert process_memory.total_bytes() == GIB
    assert process_memory.available_bytes() == 3 * GIB // 4


def test_a_path_that_the_container_does_not_see_is_no_obstacle(tmp_path, of_process):
    of_process("4:memory:/docker/0123")
    version_1(tmp_path / "groups" / "memory", GIB, GIB // 2)
    assert process_memory.available_bytes() == GIB // 2


def test_a_group_beyond_its_limit_has_nothing_left(tmp_path, of_process):
    of_process("0::/pod")
    version_2(tmp_path / "groups" / "pod", GIB, GIB + 4096)
    assert process_memory.available_bytes() == 0


def test_without_limits_it_is_the_memory_of_the_computer(tmp_path, of_process):
    assert process_memory.total_bytes() == psutil.virtual_memory().total  # no such file: not Linux
    process_memory._limits.cache_clear()
    of_process("4:cpu:/", "0::/")
    version_2(tmp_path / "groups", "max", GIB)
    assert process_memory.total_bytes() == psutil.virtual_memory().total
    assert process_memory.available_bytes() > 0
