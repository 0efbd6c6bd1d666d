"""Each fact once: the heart. Rows in, facts and running totals out."""
