"""Text files with a name per line, which the options ``--classes`` and ``--outputs`` take."""

from pathlib import Path

__all__ = ["WrongNames", "lines_of"]


class WrongNames(ValueError):
    """An option does not name classes, or outputs, that can be used."""


def lines_of(file: str, option: str) -> list[str]:
    """The lines of a file that are not empty, without space around them. Windows' byte order mark is passed over."""
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise WrongNames(
            f"{option} must be a text file in UTF-8, got {file}, whose byte {error.start} is not. Save it as UTF-8."
        ) from error
    return [line.strip() for line in text.splitlines() if line.strip()]
