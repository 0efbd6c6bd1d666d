"""Where rows go: metrics, frames, files."""
