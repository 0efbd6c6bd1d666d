"""The commands, one module each; `pimetrics.cli` joins them."""
