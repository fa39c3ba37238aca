"""Results: functions of a run folder's files, and of nothing else."""
