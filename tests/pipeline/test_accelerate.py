"""Kernels are compiled once per machine, for one type of their arguments, and not in silence."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter

import psutil
import pytest

from pairloom.pipeline import accelerate

if sys.platform == "win32":
    pytest.skip("there are no locks", allow_module_level=True)

# A kernel that calls another; what happens to both is printed.
MODULE = """
from pairloom.pipeline.accelerate import kernel

@kernel
def half(x):
    return x / 2

@kernel
def quarter(x):
    return half(half(x))
"""
REPORTED = """
from pairloom.pipeline.accelerate import compilations_reported

def tell(compilation):
    if compilation.state == "compiled" or compilation.state == "waiting" and not compilation.seconds:
        print(compilation.state, compilation.kernel, compilation.cached, flush=True)

with compilations_reported(tell):
    from some_kernels import quarter
    print(quarter(1.0))
"""
SILENT = "from some_kernels import quarter; quarter(1.0)"
LOUD = f"from pairloom.pipeline import accelerate; accelerate._WORTH_A_LINE = 0; {SILENT}"
LOCKED = """
import fcntl, sys, time
file = open(sys.argv[1], "ab")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def process(tmp_path):
    """Start Python on a script, with an empty cache and the module `some_kernels`."""
    (tmp_path / "some_kernels.py").write_text(MODULE)
    started = []

    def start(script, *arguments, **variables):
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), **variables}
        environment["PYTHONPATH"] = str(tmp_path)
        command = [sys.executable, "-c", script, *map(str, arguments)]
        started.append(
            subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        )
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.communicate()


def outcome(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out.splitlines(), err


def lock_file(tmp_path):
    (found,) = tmp_path.glob("cache/*/some_kernels.quarter.lock")
    return found


def test_a_kernel_is_compiled_with_those_it_calls_and_then_loaded(process):
    assert outcome(process(REPORTED))[0] == ["compiled some_kernels.quarter True", "0.25"]
    assert outcome(process(REPORTED))[0] == ["0.25"]


@pytest.mark.long
def test_a_cache_that_an_older_version_left_is_compiled_again(process, tmp_path):
    for name in ("Size", "Extent"):
        (tmp_path / "some_kernels.py").write_text(
            "from typing import NamedTuple\nfrom pairloom.pipeline.accelerate import kernel\n"
            f"class {name}(NamedTuple):\n    length: float\n"
            f"{name}.__module__ = 'some_kernels'\n"
            "@kernel\ndef quarter(size):\n    return size.length / 4\n"
        )
        script = f"from some_kernels import {name}, quarter; print(quarter({name}(1.0)))"
        assert outcome(process(script))[0] == ["0.25"]


@pytest.mark.long
def test_of_two_processes_one_compiles(process):
    both = [process(REPORTED), process(REPORTED)]
    lines = Counter(line for one in both for line in outcome(one)[0])
    assert lines["compiled some_kernels.quarter True"] == 1
    assert lines["0.25"] == 2


@pytest.mark.long
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_holder_that_is_killed_does_not_block(process, tmp_path, end):
    outcome(process(SILENT))  # makes the lock
    for file in tmp_path.glob("cache/*/*.nb?"):
        file.unlink()
    holder = process(LOCKED, lock_file(tmp_path))
    assert holder.stdout.readline() == "held\n"
    waiting = process(REPORTED)
    assert waiting.stdout.readline() == "waiting some_kernels.quarter True\n"
    holder.send_signal(end)
    assert outcome(waiting)[0] == ["compiled some_kernels.quarter True", "0.25"]


@pytest.mark.long
def test_a_cache_that_cannot_be_written_is_done_without(process, tmp_path):
    (tmp_path / "__pycache__").write_text("not a folder")
    nowhere = dict.fromkeys(("NUMBA_CACHE_DIR", "HOME", "XDG_CACHE_HOME"), "/dev/null/nowhere")
    out, err = outcome(process(REPORTED, PYTHONDONTWRITEBYTECODE="1", **nowhere))
    assert out == ["compiled some_kernels.quarter False", "0.25"]
    assert err == ""
    assert "in every process" in outcome(process(LOUD, PYTHONDONTWRITEBYTECODE="1", **nowhere))[1]


# A user of a container whose number no file of users knows.
HOMELESS = """
import os, pwd

def unknown(*user):
    raise KeyError(user)

pwd.getpwuid = unknown
os.environ.pop("HOME", None)
"""


@pytest.mark.long
def test_a_user_without_a_home_gets_no_folder_where_it_stands(process, tmp_path):
    (tmp_path / "__pycache__").write_text("not a folder")
    (tmp_path / "here").mkdir()
    script = f"{HOMELESS}os.chdir({str(tmp_path / 'here')!r})\n{LOUD}"
    _, err = outcome(process(script, PYTHONDONTWRITEBYTECODE="1", NUMBA_CACHE_DIR="", XDG_CACHE_HOME=""))
    assert err.count("\n") == 1
    assert "in every process" in err
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.long
def test_a_lock_that_cannot_be_made_is_done_without(process, tmp_path):
    outcome(process(SILENT))
    lock = lock_file(tmp_path)
    for file in tmp_path.glob("cache/*/*.nb?"):
        file.unlink()
    lock.unlink()
    lock.mkdir()
    assert outcome(process(REPORTED))[0] == ["compiled some_kernels.quarter True", "0.25"]


def test_threads_wait_for_each_other(process):
    script = "\n".join(
        [
            "from concurrent.futures import ThreadPoolExecutor",
            "from some_kernels import half, quarter",
            "with ThreadPoolExecutor(4) as pool:",
            "    print(*[r.result() for r in [pool.submit(f, 1.0) for f in (half, quarter, half, quarter)]])",
        ]
    )
    assert outcome(process(script))[0] == ["0.5 0.25 0.5 0.25"]


def test_one_line_says_that_kernels_are_compiled(process):
    assert outcome(process(LOUD))[1] == "Compiling kernels for this machine, about 15 s. This happens once.\n"
    assert outcome(process(LOUD))[1] == ""


SLOW = """
import time
from pairloom.pipeline import accelerate
accelerate._WORTH_A_LINE = 0.2
said = accelerate.Compilation
for state, seconds in (("compiling", 0.0), ("compiled", 0.1), ("compiling", 0.0)):
    accelerate._report(said(state, "some_kernels.half", seconds, True))
    print(state, flush=True)
time.sleep({seconds})
accelerate._report(said("compiled", "some_kernels.half", 1.0, True))
"""


@pytest.mark.long
def test_the_line_comes_while_one_kernel_is_compiled_for_long(process):
    # numba reports the beginning and the end of a kernel, and nothing in between.
    assert outcome(process(SLOW.format(seconds=0.6)))[1].startswith(
        "Compiling kernels for this machine, about"
    )
    assert outcome(process(SLOW.format(seconds=0.0)))[1] == ""


BUSY = """
import time
from pairloom.pipeline import accelerate
accelerate._announcement(accelerate.Compilation("compiling", "some_kernels.half", 0.0, True))
began = time.process_time()
while time.process_time() < began + 0.25:
    pass
time.sleep(0.9)  # as if others had the core
"""


@pytest.mark.long
def test_the_time_is_longer_where_others_use_the_cores(process):
    (line,) = outcome(process(BUSY))[1].splitlines()
    assert int(re.search(r"about (\d+) s", line)[1]) > 20


def test_of_processes_that_one_process_has_started_one_says_it(process, tmp_path):
    script = "\n".join(
        [
            "import multiprocessing, sys",
            "from pairloom.pipeline import accelerate",
            "def wait():",
            "    accelerate._report(accelerate.Compilation('waiting', 'some_kernels.half', 5.0, True))",
            "wait()",
            "multiprocessing.get_context('fork').Process(target=wait).start()",
        ]
    )
    _, err = outcome(process(script))
    assert err.count("Waiting for another process") == 1


BESIDE = """
import time
from pathlib import Path
import some_kernels
from pairloom.pipeline.accelerate import compilations_reported, compiled_beside

def tell(compilation):
    if compilation.state == "compiled":
        print(compilation.kernel, flush=True)

with compilations_reported(tell), compiled_beside(some_kernels.call, "quarter"):
    some_kernels.eighth(1.0)
    end = time.monotonic() + 60
    while not list(Path({cache!r}).glob("*/some_kernels.quarter*.nbc")):
        assert time.monotonic() < end, "nobody compiled it"
        time.sleep(0.05)
    print(some_kernels.quarter(1.0))
"""
CALLED = (
    MODULE
    + """
@kernel
def eighth(x):
    return x / 8

def call(name):
    globals()[name](1.0)
"""
)
two_cores = pytest.mark.skipif(accelerate._usable_cores() < 2, reason="needs a second core")


@pytest.mark.long
@two_cores
def test_what_is_needed_later_is_compiled_by_another_process(process, tmp_path):
    (tmp_path / "some_kernels.py").write_text(CALLED)
    script = BESIDE.format(cache=str(tmp_path / "cache"))
    assert outcome(process(script))[0] == ["some_kernels.eighth", "0.25"]


@pytest.mark.long
@two_cores
def test_a_kernel_that_another_process_failed_to_compile_is_compiled_here(process, tmp_path):
    (tmp_path / "some_kernels.py").write_text(CALLED.replace("globals()", "oops"))
    script = re.sub(r"    end = .*?sleep\(0.05\)\n", "", BESIDE, flags=re.DOTALL)
    assert outcome(process(script))[0] == ["some_kernels.eighth", "some_kernels.quarter", "0.25"]


@pytest.mark.long
@two_cores
def test_a_process_that_ends_leaves_none_behind(process, tmp_path):
    (tmp_path / "some_kernels.py").write_text(CALLED + "\ndef sleep():\n    import time; time.sleep(600)\n")
    script = (
        "import some_kernels; from pairloom.pipeline import accelerate\n"
        "with accelerate.compiled_beside(some_kernels.sleep):\n    some_kernels.eighth(1.0)\n"
        "print(accelerate._Beside._begun[some_kernels.sleep].pid)"
    )
    (pid,) = map(int, outcome(process(script))[0])
    assert not psutil.pid_exists(pid)


def test_a_moment_is_not_worth_a_line(process):
    assert outcome(process(SILENT))[1] == ""


FIT = """
import gc
from numba.core.dispatcher import Dispatcher
from sklearn.datasets import load_digits
from pairloom import PairwiseSVC

X, y = load_digits(return_X_y=True)
PairwiseSVC(random_state=0).fit(X[::2], y[::2]).predict_proba(X[1::2])
for one in gc.get_objects():
    if isinstance(one, Dispatcher) and one.__module__.startswith("pairloom.") and one.signatures:
        print(one.__name__, len(one.signatures))
"""
# What Python calls. The kernels that these call are parts of them.
OF_A_FIT = {
    "add_rows",
    "calibrate",
    "couple_bradley_terry",
    "couple_by_elimination",
    "couple_wlw2",
    "decision_values",
    "dprime",
    "fill_missing",
    "loss_profile",
    "measure_distances",
    "out_of_fold_logits",
    "row_sums",
    "scatter",
    "solve_gram",
    "solve_rows",
}


@pytest.mark.long
def test_a_fit_compiles_one_form_of_the_kernels_that_it_needs():
    for _ in range(2):  # the first loads or compiles the parts too
        found = subprocess.run([sys.executable, "-c", FIT], check=True, capture_output=True, text=True)
    counts = dict(line.split() for line in found.stdout.splitlines())
    assert set(counts) == OF_A_FIT
    assert set(counts.values()) == {"1"}


def test_importing_the_estimator_imports_nothing_that_a_fit_does_not_need():
    script = "import sys; from pairloom import PairwiseSVC; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    late = {"dask", "distributed", "matplotlib", "onnx", "pydantic", "scipy.cluster", "zarr"}
    assert late.isdisjoint(found.stdout.split())
