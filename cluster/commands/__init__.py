"""The commands of ``pairloom``, a file each. ``cluster.cli`` has the table of their names.

A command is imported when it is called, so that it waits for no imports but its own.
"""
