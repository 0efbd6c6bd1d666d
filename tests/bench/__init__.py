"""The benchmark: a deterministic generator with exact totals, the peers, and what is measured against them."""
