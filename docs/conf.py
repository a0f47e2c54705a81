"""Sphinx's configuration of the documentation: `.ci/docs` builds it, with warnings as errors."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "Pairloom"
author = "the Pairloom developers"
copyright = "2026, the Pairloom developers"
version = release = installed("pairloom")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_click",
    "sphinx_gallery.gen_gallery",
    "configuration_reference",
]
exclude_patterns = ["_build", "examples", "sg_execution_times.rst"]
templates_path = ["templates"]
smartquotes = False  # --option and "value" are meant as they are written
default_role = "literal"  # a docstring's `name` may be a parameter, which has no page to link to

# Pages are Markdown that a viewer of the repository renders too. Headings have the anchors that such viewers give them.
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # docstrings state the types, in words
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "ExampleTitleSortKey",
    "abort_on_example_error": True,
    "capture_repr": (),
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
}

html_theme = "furo"
html_title = "Pairloom"
html_copy_source = False
html_show_sourcelink = False
html_static_path = ["static"]
html_css_files = ["pairloom.css"]
