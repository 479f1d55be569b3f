"""Programs that are not ours: candidates and informers on client-go, kubectl, and observers."""
