"""The configuration of a run: the sections of its TOML file, all checked before anything is written.

One file per section. ``config`` has `Config`, the whole of them, and the checks between sections.
"""
