"""Tests that stand on real parts: pi itself, a scripted model, Prometheus."""
