"""What the installer asks of systemd: the text of its `units`, and the `services` that run."""
