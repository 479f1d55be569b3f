"""The Leases of an election over kubeapi: which one is named, the own, those of an election for
shards. Performs the cores' commands and returns what happened; knows no rule of election."""
