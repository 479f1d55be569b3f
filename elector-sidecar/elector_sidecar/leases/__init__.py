"""The Lease of an election over kubeapi, and its name in a file. Performs the core's commands and
returns what happened; knows no rule of election."""
