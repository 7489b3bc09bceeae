"""What `recserve ab` does: editing abtest.yaml, reading exposures and events, reports."""
