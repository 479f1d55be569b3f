"""Certificates that programs make for themselves: `maker` makes X.509, `self_signed` starts it."""
