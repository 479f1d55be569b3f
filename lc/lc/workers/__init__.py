"""The managers of objects by kind, and the reports of their workers."""
