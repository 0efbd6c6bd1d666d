"""HTTP: the scrape and what surrounds it."""
