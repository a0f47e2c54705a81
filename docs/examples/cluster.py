"""
A run on a cluster
==================

`pairloom run CONFIG` trains on a Dask cluster and writes everything into a directory, from which it resumes after any
failure. `pairloom.run` does the same from Python, on any `distributed.Client`: of a `LocalCluster`, of Kubernetes, of
a batch system.
"""

# %%
# A cluster
# ---------
# This one has two workers, which are threads of this process, so that the example takes seconds. Replace it by a
# `Client` with the address of a scheduler; the rest stays the same.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from distributed import Client

import pairloom

client = Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None)
folder = tempfile.TemporaryDirectory()
directory = Path(folder.name) / "digits"

# %%
# A run that is interrupted
# -------------------------
# "digits" is the name of a configuration that ships with pairloom. `run` returns when the run has started. A cancelled
# run, like one whose workers or driver were killed, keeps its finished work.
handle = pairloom.run("digits", directory=directory, client=client)
handle.cancel()
stages = handle.status().stages
for stage, (done, units) in stages.items():
    print(f"{stage:15s} {done} of {units} units")

fig, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
axes.barh(list(stages), [units for _, units in stages.values()], color="#dddddd", label="to do")
axes.barh(list(stages), [done for done, _ in stages.values()], label="finished when it was cancelled")
axes.set(xlabel="units of work")
axes.invert_yaxis()
axes.legend()

# %%
# The same call resumes it, here or on another cluster. The result has the same bytes as if nothing had happened.
handle = pairloom.run("digits", directory=directory, client=client)
model = handle.result()
print(handle.status().state)

# %%
# A finished run is an estimator
# ------------------------------
# It predicts as ``pairloom predict`` does, to the bit.
print(model)
print(len(model.edges_), "pairs of", len(model.classes_), "classes")

# %%
# The files of a run
# ------------------
# zarr groups with named dimensions, a ledger with checksums, and a report. Nothing is pickled.
for path in sorted(directory.iterdir()):
    print(path.name)

client.close()
folder.cleanup()
