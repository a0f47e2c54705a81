"""A digest of the code that a module depends on: results are of the same code if it is the same.

The code is that of the module and of all modules of the package that it imports, and they import in turn. Comments,
docstrings and layout are no part of it, so that a sentence may be mended without measuring for hours again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from pairloom.pipeline.storage.digests import digest_of

__all__ = ["code_digest", "reached_files"]

PACKAGE = "pairloom"


@cache
def code_digest(module: str, root: Path = Path(__file__).parents[2]) -> str:
    """The digest of a module, such as "pairloom.pipeline.experiments.curved", of the package in a folder."""
    return digest_of({file.relative_to(root).as_posix(): _code(file) for file in reached_files(module, root)})


def reached_files(module: str, root: Path) -> set[Path]:
    """The files of a module and of all that it imports, directly or not."""
    reached: set[Path] = set()
    waiting = list(_files(module, root))
    while waiting:
        file = waiting.pop()
        if file not in reached:
            reached.add(file)
            waiting += [other for name in _imports(file) for other in _files(name, root)]
    return reached


@cache  # the experiments import mostly the same files
def _imports(file: Path) -> tuple[str, ...]:
    """The names that a file imports from the package: modules, or what is in them."""
    names: list[str] = []
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == PACKAGE:
            names += [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names if alias.name.partition(".")[0] == PACKAGE]
    return tuple(names)


def _files(module: str, root: Path) -> Iterator[Path]:
    """The file of a module, and those of the packages it is in; none for a name inside of a module."""
    parts = module.split(".")[1:]
    path = root.joinpath(*parts)
    if path.with_suffix(".py").is_file() and parts:
        yield path.with_suffix(".py")
    for depth in range(1, len(parts) + 1):
        package = root.joinpath(*parts[:depth], "__init__.py")
        if package.is_file():
            yield package


def _code(file: Path) -> str:
    tree = _tree(file)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:]
    return ast.dump(tree)


def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_bytes())
