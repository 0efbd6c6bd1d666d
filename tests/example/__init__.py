"""The example archive of the notebooks: what writes it, and what it holds."""
