"""Named runs, one TOML file each."""
