"""Features: reading and checking them, the embedded sets, and the distances between classes."""
