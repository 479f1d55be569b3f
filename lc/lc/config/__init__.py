"""What the process is told: names of flags, texts to values, and the checked whole."""
