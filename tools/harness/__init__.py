"""Real servers, programs and containers to test and measure with; nothing here is a test."""
