"""The commands of ``pairloom``, grouped by what a user does: run, follow, results, config and so on.

``cli`` maps the name of a command to its module, which is imported when the command is called.
"""
