"""Running on Dask: configuration files, clusters, the driver, progress, and the command line.

`pairloom.run` and `pairloom.submit` are in ``run``; the commands of the same names are in ``commands.run``. Both call
``drive.whole_run``.
"""
