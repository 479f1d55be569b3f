"""Telling others who leads, off the renewal path; imported only where a flag asks for it."""
