"""What the pi coding agent does and costs, as tables and as Prometheus metrics."""

__version__ = "0.1.0"
