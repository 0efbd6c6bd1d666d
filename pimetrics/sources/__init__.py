"""Where bytes come from: files, folders, pipes."""
