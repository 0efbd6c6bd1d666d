"""The notebooks: building them, and what must hold of them."""
