"""The directive ``configuration``: every key of a run's configuration, as `pairloom config` prints them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from pairloom.cluster.config.config_reference import ConfigKey, ConfigSection, sections, toml_value


class ConfigurationReference(SphinxDirective):
    """A section per section of the configuration, each with a table of its keys."""

    def run(self) -> list[nodes.Node]:
        """The sections, in the order of `Config`."""
        return [self._section(section) for section in sections().values()]

    def _section(self, section: ConfigSection) -> nodes.Node:
        title = f"[{section.name}]"
        node = nodes.section(ids=[nodes.make_id(title)], names=[title])
        node += nodes.title(title, "", nodes.literal(text=title))
        node += self.parse_text_to_nodes("\n".join([*section.about.splitlines(), "", *table(section)]))
        return node


def table(section: ConfigSection) -> Iterator[str]:
    """The keys of a section as a Markdown table."""
    yield from ("| key | values | default | meaning |", "|---|---|---|---|")
    for key in section.keys:
        values = re.sub(r'("[^"]*")', r"`\1`", key.values)
        cells = (f"`{key.name}`", values, default_text(key), key.meaning)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def default_text(key: ConfigKey) -> str:
    """The default as it would stand in the file; nothing for a key that may be left out."""
    if key.must_be_set:
        return "must be set"
    return "" if key.default is None else f"`{toml_value(key.default)}`"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("configuration", ConfigurationReference)
    return {"parallel_read_safe": True}
