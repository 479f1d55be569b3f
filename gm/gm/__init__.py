"""Global Manager: the controller, and the hub that LCs connect to."""
