"""Pages of the repository: their Python runs, their links lead somewhere, and what machines read of them is valid."""

import importlib
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: README.md has tests of its own.
WITH_PYTHON = [page for page in (ROOT / "docs").glob("*.md") if SNIPPET.search(page.read_text())]


# A page may start a cluster with Dask's own settings, while another program has Dask's usual port.
@pytest.mark.filterwarnings(r"ignore:\s*Port 8787 is already in use:UserWarning")
@pytest.mark.quick("explaining.md", "guide.md", "index.md", "parameters.md", "start.md")
@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.name)
def test_the_snippets_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for snippet in SNIPPET.findall(page.read_text()):
        exec(compile(snippet, page.name, "exec"), names)


def test_the_names_of_the_python_interface_exist():
    text, place = (ROOT / "docs" / "api.md").read_text(), ""
    for line in text.splitlines():
        if line.startswith(".. currentmodule:: "):
            place = line.rpartition(" ")[2]
        elif re.fullmatch(r"   ~?[\w.]+", line):
            module, _, name = f"{place}.{line.strip().removeprefix('~')}".rpartition(".")
            assert hasattr(importlib.import_module(module), name), line


def anchors_of(page):
    """Headings as the anchors that viewers of Markdown make of them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page):
    text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link) or link.startswith("gallery/"):  # the gallery is made with the site
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors_of(target), link


def test_pages_are_in_the_contents_of_the_site():
    contents = re.findall(r"^```{toctree}\n(.*?)^```$", (ROOT / "docs" / "index.md").read_text(), re.M | re.S)
    listed = {line for block in contents for line in block.split() if not line.startswith(":")}
    assert {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"} <= listed


def test_the_citation_is_valid():
    yaml = pytest.importorskip("yaml")  # comes with Dask
    from importlib.metadata import version

    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= citation.keys(), "what the format demands"
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == version("pairloom")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["license"] == project["license"]
    for work in [citation, *citation["references"]]:
        assert work["title"]
        assert all(
            {"name"} == set(author) or {"family-names", "given-names"} == set(author)
            for author in work["authors"]
        )
    assert all(reference["type"] for reference in citation["references"])


def test_the_workflow_and_the_templates_can_be_read():
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())["jobs"]
    systems = {str(job["runs-on"]) for job in jobs.values()} | set(
        jobs["macos-and-windows"]["strategy"]["matrix"]["system"]
    )
    assert {"ubuntu-latest", "macos-latest", "windows-latest"} <= systems
    scripts = {step["run"] for job in jobs.values() for step in job["steps"] if "run" in step}
    called = {script for script in scripts if script.startswith(".ci/")}
    assert called == {".ci/types", ".ci/docs", ".ci/lowest"}
    assert all((ROOT / script).is_file() for script in called)
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(
        ">="
    )
    assert oldest in jobs["linux"]["strategy"]["matrix"]["python"]
    for template in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(template.read_text())
        assert template.name == "config.yml" or {"name", "description", "body"} <= form.keys()


def test_hints_install_from_a_clone():
    """There is no release yet: `pip install "pairloom[extra]"` would fail."""
    texts = [
        *PAGES,
        *(ROOT / "configs").glob("*.toml"),
        *ROOT.glob("cluster/**/*.py"),
        *ROOT.glob("pipeline/**/*.py"),
    ]
    hint = re.compile(r"pip install \W*pairloom\b")
    lines = [line for path in texts for line in path.read_text().splitlines() if hint.search(line)]
    assert [line for line in lines if "Once it is published" not in line] == []


def test_every_extra_that_a_hint_names_is_there():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    texts = "\n".join(path.read_text() for path in [*PAGES, *(ROOT / "configs").glob("*.toml")])
    named = set(re.findall(r'pip install (?:-q )?-e "?\.\[(\w+)\]', texts))
    assert named
    assert named <= extras.keys()
