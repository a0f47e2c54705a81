"""Configuration files: reading TOML, overrides, messages for mistakes, and the reference page of all keys."""
