"""The engine: from the view of one object to the plan for it. Pure."""
