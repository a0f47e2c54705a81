"""Runs on a real SLURM: jobs end, are cancelled and are killed, and the bytes are those of a run on this computer.

Run alone with ``pytest -m faults``. ``.ci/slurm`` starts a SLURM of one node on a test computer.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from dask_processes import finish, kill_and_reap, pairloom_process, wait_until
from small_runs import (
    assert_same_bytes,
    bytes_of,
    run_here,
    times_begun,
    workers_at_work,
    write_config,
    write_features,
)

from pairloom.cluster.watch.status import run_status
from pairloom.pipeline.stages import STAGE_NAMES
from pairloom.pipeline.storage.folder import Folder
from pairloom.pipeline.storage.location import Location, StoreUrl


def command(*words: object) -> str:
    """The output of a command of SLURM."""
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def why_not() -> str | None:
    """Why there is no SLURM to test with."""
    if shutil.which("sbatch") is None:
        return "sbatch is not installed"
    try:
        done = subprocess.run(["sinfo", "--noheader"], capture_output=True, text=True, timeout=30)
    except subprocess.TimeoutExpired:
        return "SLURM does not answer"
    return None if done.returncode == 0 and done.stdout.strip() else "SLURM does not answer"


pytestmark = [pytest.mark.faults, pytest.mark.skipif(bool(why_not()), reason=str(why_not()))]

# Jobs wait for each other, and for SLURM to look at its queue.
LONG = 400.0
PARTITION = os.environ.get("PAIRLOOM_SLURM_PARTITION", "main")
INTERFACE = os.environ.get("PAIRLOOM_SLURM_INTERFACE", "lo")
# Jobs of these names are those of the tests, whatever else the user has in the queue.
WORKERS, DRIVER = "pairloom-test-worker", "pairloom-test-driver"


def slurm(**keys: object) -> list[str]:
    """Options of a driver whose workers are jobs; keywords are keys of [cluster.slurm]."""
    own = {"queue": PARTITION, "interface": INTERFACE, "job_name": WORKERS, "memory": "1GiB"}
    section = {**own, **keys}
    values = {"kind": "slurm", **{f"slurm.{key}": value for key, value in section.items()}}
    return [word for key, value in values.items() for word in ("--set", f"cluster.{key}={value}")]


@pytest.fixture(scope="session")
def slow_config(tmp_path_factory) -> Path:
    """Pairs that take one worker some seconds: 190 in 48 tiles."""
    folder = tmp_path_factory.mktemp("slow")
    features = write_features(folder / "data.npz", classes=20, rows=400, features=400, samples=120)
    return write_config(folder / "slow.toml", features, edges_per_tile=4, samples_per_slab=32)


@pytest.fixture(scope="session")
def undisturbed(slow_config, client, tmp_path_factory) -> dict[str, bytes]:
    """The bytes of the same run on threads of this process."""
    directory = tmp_path_factory.mktemp("undisturbed") / "run"
    run_here(slow_config, directory, client)
    return bytes_of(directory)


@pytest.fixture
def directory(tmp_path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def begin(slow_config, directory, tmp_path):
    """Start a driver on this computer, which does not outlive the test."""
    drivers: list[subprocess.Popen[str]] = []

    def begin(*options: object) -> subprocess.Popen[str]:
        words = ("run", slow_config, "--directory", directory, *options)
        drivers.append(pairloom_process(*words, cwd=tmp_path))
        return drivers[-1]

    yield begin
    for driver in drivers:
        kill_and_reap(driver)


@pytest.fixture
def submit(slow_config, directory, tmp_path):
    """Submit a driver as a job, with the script of docs/runs.md; the number of the job."""

    def submit(directory: Location = directory) -> str:
        words = [
            sys.executable,
            "-m",
            "pairloom",
            "run",
            slow_config,
            "--directory",
            directory,
            *slurm(jobs=1),
        ]
        script = tmp_path / "driver.sh"
        script.write_text(
            "#!/bin/bash\n"
            f"#SBATCH --job-name={DRIVER} --cpus-per-task=1 --mem=1G --time=00:10:00\n"
            f"#SBATCH --partition={PARTITION} --output={tmp_path}/driver.txt --open-mode=append\n"
            "#SBATCH --signal=B:TERM@60\n"
            f"exec {shlex.join(map(str, words))}\n"
        )
        return command("sbatch", "--parsable", f"--chdir={tmp_path}", script).strip()

    return submit


@pytest.fixture(autouse=True)
def no_job_outlives_a_test():
    yield
    command("scancel", f"--name={WORKERS}")
    command("scancel", f"--name={DRIVER}")
    wait_until(lambda: not jobs(WORKERS) | jobs(DRIVER), "the end of all jobs")


def jobs(name: str, *options: str) -> set[str]:
    """Numbers of the jobs of a name that wait or run."""
    return set(command("squeue", "--noheader", f"--name={name}", "--format=%A", *options).split())


def worker_jobs() -> set[str]:
    """Jobs of workers that run."""
    return jobs(WORKERS, "--states=RUNNING")


def units_begun_again(directory: Path) -> int:
    return sum(sum(n - 1 for n in times_begun(directory, stage).values()) for stage in STAGE_NAMES)


def assert_finished(code: int, errors: str, directory: Path, undisturbed: dict[str, bytes]) -> None:
    assert code == 0, errors
    assert "Traceback" not in errors, errors
    assert_same_bytes(directory, undisturbed)
    assert run_status(directory, verify=True).state == "finished"


def trained(directory: Path) -> bool:
    tiles = directory / "ledger" / "machines"
    return tiles.is_dir() and any(tiles.iterdir())


def test_a_run_on_slurm_has_the_bytes_of_a_run_here(begin, directory, undisturbed):
    code, errors = finish(begin(*slurm(jobs=2)))
    assert_finished(code, errors, directory, undisturbed)
    assert units_begun_again(directory) == 0
    wait_until(lambda: not jobs(WORKERS), "the end of the jobs")


@pytest.mark.parametrize("processes", [1, 2])
def test_a_job_that_is_cancelled_loses_only_its_tasks_and_is_asked_for_again(
    processes, begin, directory, undisturbed
):
    # The memory of a job is shared by its processes, of which each takes 400 MB before it has done anything.
    settings = slurm(jobs=1, cores=processes, processes=processes, memory=f"{processes}GiB")
    driver = begin(*settings)
    wait_until(lambda: trained(directory), "the first tile")
    (first,) = worker_jobs()
    command("scancel", first)
    wait_until(lambda: worker_jobs() - {first}, "another job")
    assert_finished(*finish(driver, LONG), directory, undisturbed)
    assert processes < len(workers_at_work(directory, "machines")) <= 2 * processes
    assert units_begun_again(directory) <= processes


def test_workers_that_leave_in_time_are_followed_by_others(begin, directory, slow_config, client, tmp_path):
    """As at the end of the wall time, only sooner: machines of eight folds and this precision take half a minute."""
    precise = ("model.tol=1e-9", "model.folds=8")
    run_here(slow_config, tmp_path / "undisturbed", client, *precise)
    leave = '["--lifetime", "7s", "--lifetime-stagger", "1s"]'
    settings = [word for setting in precise for word in ("--set", setting)]
    driver = begin(*slurm(jobs=1, worker_extra_args=leave), *settings)
    assert_finished(*finish(driver, LONG), directory, bytes_of(tmp_path / "undisturbed"))
    workers = workers_at_work(directory, "machines")
    assert len(workers) > 1
    assert units_begun_again(directory) < len(workers), "at most the unit that each of them was at"


def test_a_job_is_killed_at_the_end_of_its_wall_time(begin, directory, undisturbed):
    """Its worker hangs, so that it does not leave by itself."""
    driver = begin(*slurm(jobs=1, walltime="00:01:00"))
    wait_until(lambda: trained(directory) or driver.poll() is not None, "the first tile")
    (first,) = worker_jobs()
    script = command("scontrol", "write", "batch_script", first, "-")
    assert "#SBATCH -t 00:01:00" in script
    assert "--lifetime 51s --lifetime-stagger 3s" in script
    for worker in workers_at_work(directory, "machines"):
        os.kill(worker, signal.SIGSTOP)
    # SLURM looks for the end of a wall time every now and then, and gives a job half a minute to end.
    wait_until(lambda: worker_jobs() - {first}, "another job", patience=LONG)
    assert_finished(*finish(driver, LONG), directory, undisturbed)
    assert units_begun_again(directory) <= 1


def test_the_driver_is_a_job_and_is_killed_and_resumed(submit, directory, tmp_path, undisturbed):
    driver = submit()
    wait_until(lambda: trained(directory), "the first tile")
    command("scancel", "--full", "--signal=KILL", driver)
    # Workers whose scheduler is gone leave by themselves.
    wait_until(lambda: not jobs(DRIVER) | jobs(WORKERS), "the end of all jobs")
    assert run_status(directory).state == "unfinished"
    submit()
    wait_until(lambda: not jobs(DRIVER), "the end of the second driver")
    assert_finished(0, (tmp_path / "driver.txt").read_text(), directory, undisturbed)
    assert units_begun_again(directory) <= 1


def test_a_driver_in_a_job_that_is_told_to_end_stops_cleanly(submit, directory, tmp_path):
    driver = submit()
    wait_until(lambda: trained(directory), "the first tile")
    command("scancel", "--batch", "--signal=TERM", driver)
    wait_until(lambda: not jobs(DRIVER) | jobs(WORKERS), "the end of all jobs")
    assert f"Resume with: pairloom resume {directory}" in (tmp_path / "driver.txt").read_text()
    assert run_status(directory).driver.endswith(": terminated")


def test_a_queue_that_does_not_exist_is_found_before_anything_is_written(begin, directory):
    code, errors = finish(begin(*slurm(queue="nowhere")))
    assert code == 4, errors
    assert "SLURMCluster could not submit a job" in errors
    assert "invalid partition specified: nowhere" in errors
    assert not directory.exists()


def test_jobs_that_end_before_a_worker_has_come_end_the_run(begin, directory):
    code, errors = finish(begin(*slurm(jobs=1, python="/nowhere/python")))
    assert code == 4, errors
    assert "3 jobs ended before a worker had come" in errors
    assert f"pairloom resume {directory}" in errors


def test_a_driver_in_a_job_writes_into_a_store_and_is_followed_from_another_host(submit, bucket, undisturbed):
    """The driver's process is not seen from there: its heart and its log in the store tell."""
    url = StoreUrl("s3", bucket, "slurm")
    submit(url)
    wait_until(lambda: Folder(url).names("ledger/machines"), "the first tile", patience=LONG)
    attach = (
        f"hostname elsewhere && exec {shlex.join([sys.executable, '-m', 'pairloom', 'attach', str(url)])}"
    )
    spaces = ["--uts", "--pid", "--fork", "--mount-proc", "--kill-child"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    following = subprocess.Popen(["unshare", *spaces, "sh", "-c", attach], text=True, **pipes)
    printed, errors = following.communicate(timeout=LONG)
    assert following.returncode == 0, errors
    assert "reading s3://" in errors
    assert (
        "probabilities  4 of 4" in printed
    )  # it reads once a second, and may not see the last stages at work
    wait_until(lambda: not jobs(DRIVER), "the end of the job")
    assert bytes_of(url) == undisturbed
    assert run_status(url, verify=True).state == "finished"
