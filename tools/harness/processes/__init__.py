"""Our programs, and short commands of them, as processes; knows nothing of what they are."""
