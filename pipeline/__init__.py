"""What happens to the data: completion, coupling."""
