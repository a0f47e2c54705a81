"""Ctrl-C at any moment of a run: its own sentences and nothing else, the exit code, and no process left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest
from dask_processes import finish, pairloom_process, wait_until
from small_runs import write_config, write_features

from pairloom.cluster.commands.exits import ended_by_signals
from pairloom.pipeline.run.lock import last_at_work
from pairloom.pipeline.stages import STAGE_NAMES

# Lines of the progress: see cluster.watch.progress.
OWN = re.compile(
    rf"({'|'.join(STAGE_NAMES)}): \d+ of \d+|"
    r"(\S+: )?(reading the data|planning|starting the workers|compiling kernels)|"
    r"Starting pairloom|Dask dashboard|Some workers do not answer"
)


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """A run of many short units, so that there is a moment in every stage."""
    folder = tmp_path_factory.mktemp("interrupted")
    features = write_features(folder / "f.npz", classes=30, rows=60, features=64, samples=3000)
    return write_config(folder / "c.toml", features, edges_per_tile=2, samples_per_slab=16)


class Interrupted:
    """A run that is sent Ctrl-C at some moment, with its workers, as a terminal does."""

    def __init__(self, config, directory, moment, how=signal.SIGINT, *options):
        self.process = pairloom_process(
            "run", config, "--directory", directory, "--workers", 2, *options, start_new_session=True
        )
        self.lines = []
        reader = threading.Thread(target=lambda: self.lines.extend(iter(self.process.stderr.readline, "")))
        reader.start()
        wait_until(lambda: moment(self, directory) or self.process.poll() is not None, "the moment")
        os.killpg(self.process.pid, how)
        self.code = self.process.wait(60)
        reader.join()
        self.process.stdout.close()

    def said(self, text):
        return any(text in line for line in self.lines)

    @property
    def left_behind(self):
        return [one for one in psutil.process_iter() if _group(one) == self.process.pid]

    @property
    def last_words(self):
        """Everything on standard error that is no progress."""
        return [line.rstrip("\n") for line in self.lines if not OWN.match(line)]


def _group(process):
    try:
        return os.getpgid(process.pid) if process.status() != psutil.STATUS_ZOMBIE else None
    except (ProcessLookupError, psutil.NoSuchProcess):
        return None


def at_the_start(run, directory):
    return run.said("Starting") or run.said("reading the data")


def while_workers_start(run, directory):
    return run.said("starting the workers")


def in_stage(stage, units=1):
    return lambda run, directory: len(list((directory / "ledger" / stage).glob("*.json"))) >= units


RESUME = ["Stopped.", "Finished work is kept. Resume with: pairloom resume {}"]
MOMENTS = {
    "while workers start": while_workers_start,
    "as soon as they have started": in_stage("draws"),
    "while training": in_stage("machines", 5),
    "while coupling": in_stage("probabilities"),
}


@pytest.mark.faults
@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_ctrl_c_leaves_its_own_sentence_and_nothing_else(moment, config, tmp_path):
    run = Interrupted(config, tmp_path / "run", moment)
    assert run.code == 130, run.lines
    assert run.last_words == [line.format(tmp_path / "run") for line in RESUME]
    wait_until(lambda: not run.left_behind, "the workers to end", 5)
    assert last_at_work(tmp_path / "run").outcome.startswith("KeyboardInterrupt")


@pytest.fixture
def heeds_ctrl_c():
    """A process that Ctrl-C interrupts, even if a shell started the tests in the background and has them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_inside_a_destructor_is_not_lost(number, code, capfd, heeds_ctrl_c):
    class Signalled:
        def __del__(self):
            signal.raise_signal(number)
            time.sleep(0)  # the handler raises here, and Python drops what a destructor raises

    def work():
        Signalled()
        time.sleep(10)

    with pytest.raises(SystemExit) as ended, ended_by_signals("Go on."):
        work()
    assert ended.value.code == code
    assert capfd.readouterr().err == "Stopped.\nGo on.\n"


def test_an_interrupt_inside_exec_ends_with_the_exit_code_of_ctrl_c(tmp_path):
    # A dataclass is built by `exec`; CPython takes an interrupt there for unhandled, although it is caught.
    (tmp_path / "interrupted.py").write_text(
        "from pairloom.cluster.commands.streams import exit_interrupted\n"
        "try:\n    exec('raise KeyboardInterrupt')\nexcept KeyboardInterrupt:\n    exit_interrupted(130)\n"
    )
    ended = subprocess.run([sys.executable, "-m", "interrupted"], cwd=tmp_path, check=False)
    assert ended.returncode == 130


@pytest.mark.faults
def test_ctrl_c_before_the_run_has_begun_writes_nothing(config, tmp_path):
    run = Interrupted(config, tmp_path / "run", at_the_start)
    assert run.code == 130, run.lines
    assert run.last_words[0] == "Stopped."
    assert not (tmp_path / "run").exists()


@pytest.mark.faults
def test_sigterm_ends_a_run_like_ctrl_c(config, tmp_path):
    run = Interrupted(config, tmp_path / "run", in_stage("machines", 5), signal.SIGTERM)
    assert run.code == 143, run.lines
    assert run.last_words == [line.format(tmp_path / "run") for line in RESUME]
    wait_until(lambda: not run.left_behind, "the workers to end", 5)


@pytest.mark.faults
def test_a_run_that_was_interrupted_while_its_workers_started_can_be_resumed(small_config, tmp_path):
    directory = tmp_path / "run"
    assert Interrupted(small_config, directory, while_workers_start).code == 130
    code, errors = finish(pairloom_process("resume", directory, "--local", "--workers", 1))
    assert code == 0, errors


@pytest.mark.long
def test_whoever_follows_a_run_leaves_it_with_ctrl_c(config, tmp_path):
    directory = tmp_path / "run"
    here = ("--set", "cluster.kind=threads", "--workers", 1)
    driver = pairloom_process("run", config, "--directory", directory, *here)
    wait_until(lambda: (directory / "ledger" / "machines").exists(), "the run")
    follower = pairloom_process("attach", directory)
    assert "Starting" in follower.stderr.readline()
    assert "reading" in follower.stderr.readline()
    follower.send_signal(signal.SIGINT)
    code, errors = finish(follower)
    assert code == 130
    assert errors.splitlines()[-1] == f"The run goes on. Follow it again with: pairloom attach {directory}"
    assert driver.poll() is None
    driver.send_signal(signal.SIGINT)
    assert finish(driver)[0] == 130
