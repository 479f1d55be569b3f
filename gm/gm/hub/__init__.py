"""The hub: streams from and to the LCs of many nodes."""
