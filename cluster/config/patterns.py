"""Patterns of strings in a configuration, and the same for people."""

from __future__ import annotations

__all__ = ["ADDRESS", "NAME", "PATTERNS", "SIZE", "WALLTIME"]

SIZE = r"^\d{1,12}(\.\d{1,12})?\s?[KMGT]i?B$"
WALLTIME = r"^(\d+-)?\d{1,2}:\d{2}:\d{2}$"
ADDRESS = r"^(tcp|tls)://\S+:\d+$"
NAME = r"^[\w][\w.-]*$"
#: What a string must be, for a message.
PATTERNS = {
    SIZE: "a size such as '2GiB'",
    WALLTIME: "a time such as '01:00:00'",
    ADDRESS: "an address such as 'tcp://127.0.0.1:8786'",
    NAME: "a name of letters, digits, '_', '.' and '-'",
}
