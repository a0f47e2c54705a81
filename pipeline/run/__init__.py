"""The run directory: which arrays it holds, and what each stage of a run reads and writes there."""
