"""Modes active-standby and active-active: the gRPC stream to GM."""
