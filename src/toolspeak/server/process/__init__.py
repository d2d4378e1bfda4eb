"""Server processes: start, workers, lifecycle."""
