"""What observes the processes from outside, and judges what it has seen."""
