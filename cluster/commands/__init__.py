"""The commands of ``pairloom``, in modules by the task of the user: run, follow, results, config and so on.

``cli`` maps the name of a command to its module, which is imported when the command is called.
"""
