"""Servers and clients that decide each byte."""
