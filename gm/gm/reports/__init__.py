"""Reports of LCs: from their streams into NodeReports, and out of them again."""
