"""The demo of three pods and an edge node: processes or containers, faults, the screen."""
