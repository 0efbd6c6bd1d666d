"""Recordings of real pi for `pimetrics demo`; every record carries its arrival stamp (`receivedAt`)."""
