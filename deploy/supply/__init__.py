"""What benchfarm is made of: pins, a bill of materials, a check against known vulnerabilities."""
