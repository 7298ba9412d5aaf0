"""Published results: reading trees of MLPerf rounds and the mobile app's JSON, and writing both."""
