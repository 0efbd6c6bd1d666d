"""Files, folders, pipes and processes, as chunks of bytes."""
