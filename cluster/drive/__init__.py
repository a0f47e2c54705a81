"""Driving a run: the driver, the schedule of its tasks, and the tasks themselves."""
