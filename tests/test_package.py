"""The wheel, installed where there is no checkout: one name reaches site-packages, and it works."""

import site
import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import version
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
#: Python without the working directory, PYTHONPATH or the user's packages.
ALONE = "-Ic"


def run(*command, cwd):
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy of what the checkout ships, so that no build directory is left beside the sources."""
    work = tmp_path_factory.mktemp("wheel")
    source = work / "source"
    files = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=CHECKOUT).splitlines()
    for name in files:
        if (CHECKOUT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((CHECKOUT / name).read_bytes())
    # With the setuptools of the running environment a build needs no network; one too old to know pyproject.toml's
    # licence field is left out, and `build` fetches another.
    isolation = (
        ["--no-isolation", "--skip-dependency-check"]
        if int(version("setuptools").split(".")[0]) >= 77
        else []
    )
    run(sys.executable, "-m", "build", "--wheel", *isolation, "--outdir", work, source, cwd=work)
    (built,) = work.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A fresh environment with the wheel in it: its python, its site-packages, the names that were there before."""
    root = tmp_path_factory.mktemp("environment")
    venv.create(root, with_pip=False)
    python = root / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    packages = Path(
        run(python, ALONE, "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=root).strip()
    )
    before = {path.name for path in packages.iterdir()}
    pip = [sys.executable, "-m", "pip", "--python", python]
    run(*pip, "install", "--quiet", "--no-deps", wheel, cwd=root)
    gained = {path.name for path in packages.iterdir()} - before
    # The dependencies are those of the environment that runs the tests. Its own .pth files (an editable pairloom) are
    # not followed: they are read in site directories, not in directories that a .pth file names.
    here = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}
    (packages / "dependencies.pth").write_text("\n".join(sorted(here)) + "\n")
    return python, packages, gained


def test_one_name_reaches_site_packages(installed):
    _, _, gained = installed
    names = {name for name in gained if not name.endswith(".dist-info")}
    assert names == {"pairloom"}
    assert len(gained) == 2


def test_it_is_imported_from_there(installed):
    python, packages, _ = installed
    where = run(python, ALONE, "import pairloom; print(pairloom.__file__)", cwd=packages.anchor)
    assert Path(where.strip()) == packages / "pairloom" / "__init__.py"


@pytest.mark.parametrize("room", ["graphs", "pipeline", "cluster", "configs", "benchmarks", "tests"])
def test_a_room_is_no_name_of_its_own(installed, room):
    """Another package may have the name: pyarrow 17 has benchmarks."""
    python, packages, _ = installed
    code = (
        f"import importlib.util as u; found = u.find_spec({room!r})\n"
        "print(found and [found.origin, found.submodule_search_locations])"
    )
    assert str(packages) not in run(python, ALONE, code, cwd=packages.anchor)


@pytest.mark.long
def test_what_is_installed_works(installed):
    python, packages, _ = installed
    code = (
        "import numpy as np; from pairloom import complete_logits, couple, graphs\n"
        "L = np.zeros((3, 3, 1)); L[0, 1], L[1, 0], L[0, 2], L[2, 0] = 1, -1, 3, -3\n"
        "print(couple(complete_logits(L, graphs.star(3, centre=0)), 'normal').round(3).tolist())"
    )
    assert run(python, ALONE, code, cwd=packages.anchor).strip() == "[[0.705, 0.259, 0.035]]"


def test_every_module_is_in_the_wheel(installed):
    """setuptools is given a list of packages: a new folder is easily forgotten."""
    _, packages, _ = installed
    tracked = run("git", "ls-files", "*.py", cwd=CHECKOUT).splitlines()
    shipped = {Path(name) for name in tracked if Path(name).parts[0] not in ("tests", "docs")}
    missing = [name for name in shipped if not (packages / "pairloom" / name).is_file()]
    assert missing == []
