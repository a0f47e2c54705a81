from pairloom.cluster.drive.tasks import CompilationLog
from pairloom.pipeline.accelerate import Compilation


def test_the_log_of_a_run_says_which_kernel_is_compiled_and_for_how_long(tmp_path):
    log = CompilationLog(tmp_path)
    for state, seconds in (
        ("waiting", 0.0),
        ("waiting", 0.5),
        ("compiling", 0.0),
        ("compiling", 1.5),
        ("compiled", 2.04),
    ):
        log(Compilation(state, "svm_kernels.smo", seconds, True))
    lines = [line.split(" ", 2)[2] for line in (tmp_path / "log.txt").read_text().splitlines()]
    assert lines == [
        "waiting for svm_kernels.smo",
        "compiling svm_kernels.smo",
        "compiled svm_kernels.smo in 2.0 s",
    ]
    assert log == CompilationLog(tmp_path)
