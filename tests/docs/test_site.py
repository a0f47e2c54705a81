"""The built documentation can be read without a network, and has its pages. `.ci/docs` builds and names it."""

import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

SITE = Path(os.environ.get("PAIRLOOM_SITE", "no site"))
PAGES = sorted(SITE.rglob("*.html"))
pytestmark = pytest.mark.skipif(not PAGES, reason="PAIRLOOM_SITE names no built documentation: run .ci/docs")

#: Attributes by which a page loads something. A link that a reader may follow loads nothing.
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "object": "data"}


class Loads(HTMLParser):
    """What a page loads, and the anchors that it has."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag in LOADED and found.get(LOADED[tag]):
            self.addresses.append(found[LOADED[tag]])
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}


def read(page):
    loads = Loads()
    loads.feed(page.read_text())
    return loads


def test_no_page_loads_anything_from_elsewhere():
    elsewhere = {
        (page.relative_to(SITE).as_posix(), address)
        for page in PAGES
        for address in read(page).addresses
        if re.match(r"(https?:)?//", address)
    }
    assert elsewhere == set()


def test_no_style_sheet_loads_anything_from_elsewhere():
    outside = re.compile(r"(@import|url\()\s*['\"]?(https?:)?//")
    assert [style.name for style in SITE.rglob("*.css") if outside.search(style.read_text())] == []


def test_every_link_within_the_site_has_a_target():
    pages = {page: read(page) for page in PAGES}
    broken = []
    for page, loads in pages.items():
        for link in [*loads.links, *loads.addresses]:
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path.partition("?")[0]).resolve() if path else page
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].anchors):
                broken.append((page.relative_to(SITE).as_posix(), link))
    assert broken == []


def text_of(name):
    return re.sub(r"<[^>]+>", "", (SITE / name).read_text())


def test_every_key_of_a_configuration_is_in_its_reference():
    from pairloom.pipeline.config.config import Config

    text = text_of("configuration.html")
    for section, field in Config.model_fields.items():
        assert f"[{section}]" in text
        (model,) = [
            kind
            for kind in (field.annotation, *getattr(field.annotation, "__args__", ()))
            if hasattr(kind, "model_fields")
        ]
        assert [key for key in model.model_fields if key not in text] == []


def test_every_command_and_option_is_in_its_reference():
    from pairloom.cluster.commands.cli import main

    text = text_of("command_line.html")
    for name, command in main.commands.items():
        assert f"pairloom {name}" in text
        options = [name for parameter in command.params for name in parameter.opts if name.startswith("--")]
        assert all(option in text for option in options)


def test_every_public_name_has_a_page():
    import pairloom

    names = {name for name in pairloom.__all__ if name not in ("__version__", "graphs")}
    assert {name for name in names if not (SITE / "generated" / f"pairloom.{name}.html").is_file()} == set()


@pytest.mark.parametrize(
    "name",
    [
        "text_embeddings",
        "image_embeddings",
        "growing",
        "adding_classes",
        "groups_of_classes",
        "none_of_these",
        "possible_classes",
        "prediction_sets",
        "wrong_labels",
        "cluster",
    ],
)
def test_the_examples_were_run(name):
    assert (
        "Out:" in text_of(f"gallery/{name}.html")
        or "sphx-glr-script-out" in (SITE / f"gallery/{name}.html").read_text()
    )
