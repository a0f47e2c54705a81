"""The configuration of a run: the sections of its TOML file, all checked before anything is written.

``sections`` has the sections, except [cluster], which has a file of its own. ``config`` has `Config`, all of them
together, and the checks between sections.
"""
