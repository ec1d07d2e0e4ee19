"""Cards and scenarios: found, read strictly, validated with every fault and its line, and filled in."""
