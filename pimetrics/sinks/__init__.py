"""Rows and bytes to where people look for them: files, tables, metrics."""
