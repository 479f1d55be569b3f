"""Global Manager: operators, and the hub that LCs connect to."""
