"""What the dashboards are made of: expressions, panels, and one module a dashboard."""
