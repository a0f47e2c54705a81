import subprocess
import sys


def test_the_table_has_every_set_and_the_targets():
    command = [sys.executable, "-m", "pairloom.benchmarks.few_rows", "--draws", "2", "--rows", "8"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[1:5]] == ["wine", "iris", "breast_cancer", "digits"]
    for line in lines[1:5]:
        _, rows, ours, theirs, ratio, certain, _, tested = line.split()
        assert rows == "8"
        assert abs(float(ratio) - float(ours) / float(theirs)) < 0.02
        assert int(certain) <= int(tested)
    assert [line.split()[0] for line in lines[5:]] == ["ahead", "worst", "certain"]
